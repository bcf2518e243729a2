"""The longest prefix that the cache holds.

    full      blocks from the start on, until one is missing
    sliding   from the right, as many neighbours as a window needs, or a shorter run at the start
    chunked   blocks of the current chunk; what lies before it counts as there
    state     the last block whose state is there

Groups that are equal are looked up together: all must have the block. With several kinds full
attention comes first, each other kind may shorten the hit, and it is repeated until nothing
changes; with full attention and one other kind once is enough. Hits end on multiples of the
scheduler's block. Source: vllm 0.33.0, v1/core/kv_cache_coordinator.py, single_type_kv_cache_
manager.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.arithmetic import ceil_div
from kvplan.named_tuple import NamedTuple
from kvplan.replay.facts import CHUNKED, FULL, SLIDING, Facts
from kvplan.replay.nodes import Run
from kvplan.replay.request import Request
from kvplan.replay.texts import Texts

Piece = tuple[Run, int, int]  # blocks of a run that were found


class Hit(NamedTuple):
    """What one group found.

    Attributes:
        pieces: the blocks to reuse.
        blocks: length of the hit; blocks before the first piece need not be there.
    """

    pieces: list[Piece]
    blocks: int

    def upto(self, blocks: int) -> Hit:
        """The hit cut at a length."""
        if blocks >= self.blocks:
            return self
        return Hit([(r, a, min(b, blocks)) for r, a, b in self.pieces if a < blocks], blocks)

    def beyond(self, block: int) -> list[Piece]:
        """Its pieces from a block on."""
        if not self.pieces or self.pieces[0][1] >= block:
            return self.pieces
        return [(r, max(a, block), b) for r, a, b in self.pieces if b > block]


NOTHING = Hit([], 0)


class Lookup:
    """Finds hits in a tree of texts."""

    def __init__(self, facts: Facts, texts: Texts) -> None:
        self._groups = facts.groups
        self._texts = texts
        self._align = facts.scheduler_block
        self._junctions = facts.switches.junctions
        alike: dict[object, list[int]] = {}
        for index, group in enumerate(facts.groups):
            alike.setdefault(group, []).append(index)
        self._kinds = sorted(alike.values(), key=lambda found: facts.groups[found[0]].kind != FULL)
        first = facts.groups[self._kinds[0][0]].kind
        self._once = len(self._kinds) == 2 and first == FULL

    def longest(self, request: Request) -> tuple[list[Hit], int, int]:
        """(hits of the groups, tokens, end of a shared text that not all groups kept)."""
        limit = request.known - 1  # the last token is computed again for its logits
        hits = [NOTHING] * len(self._groups)
        if len(self._groups) == 1:
            self._find(request, self._kinds[0], limit, hits)
            return hits, hits[0].blocks * self._groups[0].block_size, 0
        tokens, longest, searched = limit, 0, False
        while True:
            now = tokens
            for alike in self._kinds:
                group = self._groups[alike[0]]
                if searched and group.kind == FULL:
                    now = min(now, hits[alike[0]].blocks * group.block_size)
                    continue
                self._find(request, alike, now, hits)
                now = hits[alike[0]].blocks * group.block_size
                longest = max(longest, now)
            searched = True
            if now >= tokens:
                break
            tokens = now
            if self._once:
                break
        for index, group in enumerate(self._groups):
            if group.kind == FULL:
                hits[index] = hits[index].upto(ceil_div(tokens, group.block_size))
        junction = longest if longest > tokens and self._junctions else 0
        return hits, tokens, junction

    def _find(self, request: Request, alike: list[int], limit: int, hits: list[Hit]) -> None:
        group = self._groups[alike[0]]
        size = group.block_size
        most = limit // size
        every = max(1, self._align // size)  # a hit is a multiple of so many blocks
        if group.kind in (FULL, CHUNKED):
            start = group.skipped(limit) // size if group.kind == CHUNKED else 0
            found, reach = self._from(request, alike, size, start, most)
            end = reach // every * every if group.kind == FULL else reach
            for index, pieces in zip(alike, found, strict=True):
                hits[index] = Hit(pieces, reach).upto(end)
            return
        need = max(1, ceil_div(group.window - 1, size)) if group.kind == SLIDING else 1
        for low, high in self._stretches(request, alike, size, most):
            end = high // every * every
            if end <= low:
                continue
            if end - low >= need:
                low = end - need
            elif low or group.kind != SLIDING:
                continue
            found, _ = self._from(request, alike, size, low, end)
            for index, pieces in zip(alike, found, strict=True):
                hits[index] = Hit(pieces, end)
            return
        for index in alike:
            hits[index] = NOTHING

    def _from(
        self, request: Request, alike: list[int], size: int, start: int, end: int
    ) -> tuple[list[list[Piece]], int]:
        """The pieces from a block on until one is missing, and where."""
        found: list[list[Piece]] = [[] for _ in alike]
        block = start
        single = alike[0] if len(alike) == 1 else None
        for node, _, high in self._texts.spans(request, size, start):
            if high > end:
                high = end
            if single is not None and block < high:
                runs = node.runs.get(single)
                if runs is None:
                    return found, block
                first = runs[0]
                if first.low <= block and high <= first.high:  # nearly always
                    found[0].append((first, block, high))
                    block = high
            while block < high:
                pieces = [_piece(node.runs.get(index, ()), block, high) for index in alike]
                reach = min(stop for _, stop in pieces)
                if reach <= block:
                    return found, block
                for into, (run, _) in zip(found, pieces, strict=True):
                    assert run is not None
                    into.append((run, block, reach))
                block = reach
            if block >= end:
                break
        return found, block

    def _stretches(
        self, request: Request, alike: list[int], size: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Neighbouring blocks that all groups have, from the right."""
        current: tuple[int, int] | None = None
        first_of = alike[0]
        for node, low, high in self._texts.spans_back(request, size, end):
            if first_of not in node.runs:
                continue  # a gap, as most are
            runs: list[Sequence[Run]] = [node.runs.get(index, ()) for index in alike]
            for first, stop in reversed(_joint(runs, low, high)):
                if current is not None and current[0] == stop:
                    current = (first, current[1])
                    continue
                if current is not None:
                    yield current
                current = (first, stop)
        if current is not None:
            yield current


def _piece(runs: Sequence[Run], block: int, end: int) -> tuple[Run | None, int]:
    """(the run inserted first among those that have a block, up to where it is that)."""
    for run in runs:
        if run.low <= block:
            if block < run.high:
                return run, min(run.high, end)
        elif run.low < end:
            end = run.low  # from there on this one is the first
    return None, block


def _joint(runs: list[Sequence[Run]], low: int, high: int) -> list[tuple[int, int]]:
    """Blocks of `low` .. `high` - 1 that are in every list."""
    if not all(runs):
        return []
    found: list[tuple[int, int]] = []
    block = low
    while block < high:
        reach, restart = high, block
        for each in runs:
            run, stop = _piece(each, block, high)
            if run is None:
                later = min((other.low for other in each if other.low > block), default=high)
                restart = max(restart, later)
            else:
                reach = min(reach, stop)
        if restart > block:
            block = restart
            continue
        found.append((block, reach))
        block = reach
    return found
