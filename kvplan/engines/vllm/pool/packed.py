"""Packed groups: layouts whose blocks hold all layers side by side need no equal pages.

Layers are bucketed by type. A bucket whose page sizes occur equally often is balanced: it repeats a
pattern of one layer per page size. The longest balanced bucket that mixes sizes sets the least
number of repeats a group takes; d, between that and the largest number of repeats, is the one with
the least padding (ties: the larger), and a balanced bucket of r repeats makes ceil(r / d) groups.
Buckets of states (and of windows, when there is no d) are split further so that none is wider than
the widest other group. Source: vllm 0.33.0, v1/core/kv_cache_planning.py
_get_packed_kv_cache_groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arithmetic import ceil_div
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import StateSpec
from kvplan.engines.vllm.pool.group import Group, deal


@dataclass(frozen=True, slots=True)
class _Bucket:
    runs: tuple[Run, ...]
    by_page: dict[int, list[Run]]

    @property
    def counts(self) -> list[int]:
        return [sum(run.count for run in runs) for runs in self.by_page.values()]

    @property
    def balanced(self) -> bool:
        return len(set(self.counts)) == 1

    @property
    def repeats(self) -> int:
        return max(self.counts)

    @property
    def layers(self) -> int:
        return sum(self.counts)

    def widest(self, number: int) -> int:
        """Bytes of the widest of `number` groups of this bucket."""
        return sum(
            ceil_div(count, number) * page
            for page, count in zip(self.by_page, self.counts, strict=True)
        )


def packed_groups(runs: list[Run]) -> list[Group]:
    """Groups of layers with unequal pages in a block-outermost layout."""
    buckets = _buckets(runs)
    least = max(
        (b.repeats for b in buckets if b.balanced and len(b.by_page) > 1),
        default=0,
    )
    repeats = least_padding([b.repeats for b in buckets if b.balanced], least) if least else None

    def groups_of(bucket: _Bucket) -> int:
        if bucket.balanced and repeats is not None:
            return ceil_div(bucket.repeats, repeats)
        return 1

    def is_state(bucket: _Bucket) -> bool:
        first = bucket.runs[0].spec
        return isinstance(first, StateSpec) or (repeats is None and first.frees_below_a_window)

    anchor = max(b.widest(b.layers if is_state(b) else groups_of(b)) for b in buckets)
    groups = []
    for bucket in buckets:
        number = groups_of(bucket)
        if is_state(bucket):
            per_block = max(anchor // bucket.runs[0].spec.page, 1)
            number = max(number, ceil_div(bucket.layers, per_block))
        if number == 1:
            groups.append(Group(bucket.runs, mixed=True))
            continue
        dealt = [deal(same, number) for same in bucket.by_page.values()]
        groups += [
            Group(tuple(run for part in parts for run in part), mixed=True)
            for parts in zip(*dealt, strict=True)
        ]
    return groups


def _buckets(runs: list[Run]) -> list[_Bucket]:
    buckets: list[list[Run]] = []
    for run in runs:
        for bucket in buckets:
            together = (*(known.spec for known in bucket), run.spec)
            if bucket[0].spec.is_uniform_with(together):
                bucket.append(run)
                break
        else:
            buckets.append([run])
    found = []
    for bucket in buckets:
        by_page: dict[int, list[Run]] = {}
        for run in bucket:
            by_page.setdefault(run.spec.page, []).append(run)
        found.append(_Bucket(tuple(bucket), by_page))
    return found


def least_padding(values: list[int], least: int) -> int:
    """The d in least .. max(values) with the least total of (-x mod d); ties: the larger."""
    best = max(1, least)
    best_padding: int | None = None
    for candidate in range(best, max(values) + 1):
        padding = sum(-value % candidate for value in values)
        if best_padding is None or padding <= best_padding:
            best, best_padding = candidate, padding
    return best
