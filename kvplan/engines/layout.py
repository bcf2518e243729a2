"""What an engine answers: a plan of typed figures, and the tensors behind it rank by rank.

Arrows: (ModelSpec, Request) -> engine -> `Prepared` -> `Plan` or `CacheLayout`. `size` prints a
layout, `verify` allocates its tensors, `fit` inverts plans; none of them knows an engine.

Every figure is a field, under the name that it has in the contract's JSON. Bytes and tokens are
integers. The types are records, not dataclasses, because a command loads them when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.record import Record

if TYPE_CHECKING:
    from kvplan.engines.kit.refusal import Refusal


class Tensor(NamedTuple):
    """One allocation: its name, shape in elements, element type (a torch name) and bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


class RankLayout(Record):
    """What one rank allocates, in the engine's order; `count` ranks from `rank` on are equal."""

    rank: int
    tensors: tuple[Tensor, ...]
    count: int = 1

    @property
    def bytes(self) -> int:
        """Bytes of all tensors of one of these ranks."""
        return sum(tensor.bytes for tensor in self.tensors)


class Provenance(NamedTuple):
    """A value the engine settled by itself: which option, what it became, and by which rule."""

    option: str
    value: str
    origin: str


class GroupMember(NamedTuple):
    """Layers of a group that have one page: `content_bytes` of its `page_bytes` hold entries."""

    kind: str
    layers: int
    shape: tuple[tuple[int, ...], ...]
    dtype: str
    window: int | None
    chunk: int | None
    page_bytes: int
    content_bytes: int


class PoolGroup(NamedTuple):
    """Layers that share a table of blocks, and the blocks that one request takes there."""

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    request_blocks: int
    members: tuple[GroupMember, ...]


class Plan(Record):
    """An engine's figures for a request, or for the memory that it has.

    Attributes:
        engine, version: whose rules these are, e.g. `vllm`, `0.33.0`; another version that was
            asked for is in the notices.
        refusal: why it would not start, else None.
        fits: it starts, and serves what it was planned for.
        whole_model: the figure is of the whole model and of no engine: nothing is set aside, and
            any number of devices can divide it.
        peak_bytes: the most that the fullest rank ever holds: what has to fit.
        peak_moment: when that is, where it passes: `prefill` or `decode`.
        afterwards_bytes: what that rank holds once the peak is over; None where it stays.
        stated_bytes: the engine's own sum over all ranks, where it has one beside its tensors.
        available_bytes: the memory of a rank where the engine's own flags say it.
        num_blocks, block_size, page_bytes: of a pool: blocks, tokens of one, its widest page.
        bytes_per_block: bytes of one block on a rank of each pipeline stage.
        capacity_tokens, max_concurrency: as the engine prints them when it starts.
        request_blocks, needed_bytes_one_request: what one request takes.
        max_batch_at_ctx, max_ctx_at_batch: the engine's own inverses, for a cost that is no
            staircase; `inverted` says that they are there (None is no bound).
        max_model_len: the length that the engine settled.
        max_num_seqs_that_starts: the most sequences that it may be told to run, when it was told
            more and would not start for that.
        groups: what shares a pool's blocks.
        rules: what the rules of this version rest on: `driven` (its own code was run), `read` or
            `nearest`; None where no version has rules of its own.
        extra: further figures of this engine alone, typed by it.
        printed: names of the figures that its JSON shows, in this order; what `extra` has wins.
        reasons: sentences that say why this differs from the logical cache; see
            `Prepared.explained`.
        provenance: every default the engine applied.
        notices: what the user should know: rules of another version, a format of the engine alone.
    """

    engine: str
    version: str
    refusal: Refusal | None = None
    fits: bool = True
    whole_model: bool = False
    peak_bytes: int = 0
    peak_moment: str | None = None
    afterwards_bytes: int | None = None
    stated_bytes: int | None = None
    available_bytes: int | None = None
    num_blocks: int | None = None
    block_size: int | None = None
    page_bytes: int | None = None
    bytes_per_block: tuple[int, ...] = ()
    capacity_tokens: int | None = None
    max_concurrency: float | int | None = None
    request_blocks: int | None = None
    needed_bytes_one_request: int | None = None
    inverted: bool = False
    max_batch_at_ctx: int | None = None
    max_ctx_at_batch: int | None = None
    max_model_len: int | None = None
    max_num_seqs_that_starts: int | None = None
    groups: tuple[PoolGroup, ...] = ()
    rules: str | None = None
    extra: Any = None
    printed: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def figures(self) -> dict[str, Any]:
        """The printed figures as plain values: what a machine-readable report copies."""
        own = self.__dict__
        return {
            name: _plain(getattr(self.extra, name) if hasattr(self.extra, name) else own[name])
            for name in self.printed
        }


class CacheLayout(Plan):
    """A plan with its tensors; `runs` are the ranks, neighbours that are equal held once."""

    runs: tuple[RankLayout, ...] = ()

    @property
    def ranks(self) -> tuple[RankLayout, ...]:
        """Every rank by itself."""
        return tuple(self._each())

    def _each(self) -> Iterator[RankLayout]:
        for run in self.runs:
            for rank in range(run.rank, run.rank + run.count):
                yield RankLayout(rank=rank, tensors=run.tensors)

    @property
    def rank_count(self) -> int:
        """How many ranks there are."""
        return sum(run.count for run in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes over all ranks."""
        return sum(run.bytes * run.count for run in self.runs)

    @property
    def largest_rank(self) -> int:
        """Bytes of the rank that holds most."""
        return max((run.bytes for run in self.runs), default=0)


def with_tensors(plan: Plan, runs: tuple[RankLayout, ...]) -> CacheLayout:
    """The plan as a layout."""
    return CacheLayout(**plan.__dict__, runs=runs)


def merged(ranks: Iterator[tuple[Tensor, ...]]) -> tuple[RankLayout, ...]:
    """The tensors of each rank in turn as runs of equal ranks."""
    found: list[RankLayout] = []
    for rank, tensors in enumerate(ranks):
        if found and found[-1].tensors == tensors:
            found[-1] = found[-1].replaced(count=found[-1].count + 1)
        else:
            found.append(RankLayout(rank=rank, tensors=tensors))
    return tuple(found)


def version_notices(provenance: tuple[Provenance, ...]) -> tuple[Notice, ...]:
    """The warning that other rules were used than those of the version asked for, if so."""
    return tuple(
        Notice("engine-version", item.origin) for item in provenance if item.option == "version"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        if fields is not None:
            return {name: _plain(part) for name, part in zip(fields, value, strict=True)}
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value
