"""One request's blocks in one group, and what each kind of group does with them.

Taken for the tokens of a step only: ceil(tokens / block) minus what is there. A window gives back
what lies wholly below it before anything is taken. Full blocks of known text are hashed: all of
full attention and of chunks; of windows only what a resend of the prompt needs, and what ends at a
junction. Source: vllm 0.33.0, v1/core/single_type_kv_cache_manager.py.
"""

from __future__ import annotations

from kvplan.arithmetic import ceil_div
from kvplan.replay.facts import FULL, SLIDING, Facts, Group
from kvplan.replay.lookup import Hit
from kvplan.replay.nodes import Run, Table
from kvplan.replay.pool import Pool
from kvplan.replay.request import Request
from kvplan.replay.texts import Texts


class Attention:
    """A group of attention layers, or of states that are not cached: tables without gaps."""

    def __init__(self, index: int, facts: Facts, pool: Pool, texts: Texts) -> None:
        self.group: Group = facts.groups[index]
        self.size = self.group.block_size
        self._index = index
        self._pool = pool
        self._texts = texts
        self._align = facts.scheduler_block
        self._cap = facts.caps[index]
        self._dense = (
            facts.retention is None and self._every_block_reachable(facts)
        ) or self.group.kind != SLIDING
        self._retention = facts.retention
        self._frees = self.group.kind != FULL

    def _every_block_reachable(self, facts: Facts) -> bool:
        return self._need() >= facts.scheduler_block // self.size

    def _need(self) -> int:
        return ceil_div(self.group.window - 1, self.size)

    def new_table(self) -> Table:
        """An empty table."""
        return Table()

    def missing_for(
        self, table: Table, hit: Hit, tokens: int, reused: int, prefill_end: int, *, capped: bool
    ) -> int:
        """Free blocks that admitting `tokens` takes, with those of the hit that nobody holds."""
        wanted = ceil_div(tokens, self.size)
        if capped and self._cap is not None:
            wanted = min(wanted, self._cap)
        if not reused:
            return wanted
        skipped = self.group.skipped(reused) // self.size
        new = max(wanted - max(skipped, hit.blocks), 0)
        return new + unheld(hit.beyond(skipped))

    def adopt(self, table: Table, hit: Hit, reused: int) -> None:
        """Take a hit over."""
        if not reused:
            return
        skipped = self.group.skipped(reused) // self.size
        for run, low, high in hit.beyond(skipped):
            self._pool.touch(run, low, high, table.kept)
        table.length = table.hashed = max(skipped, hit.blocks)
        first = table.kept[0].low if table.kept else table.length
        table.start = max(skipped, first)

    def shrink(self, table: Table, settled: int) -> None:
        """Give back what lies wholly below the window."""
        if not self._frees:
            return
        start = min(self.group.skipped(settled) // self.size, table.length)
        if start <= table.start:
            return
        bare = start - table.start
        table.start = start
        kept = table.kept
        if kept:
            kept = table.kept = [run for held in kept for run in held.whole()]
            gone = []
            while kept and kept[0].low < start:
                run = kept[0]
                if run.high > start:
                    self._pool.cut(run, run.low, start)
                    gone.append(run.whole()[0])
                    kept[:1] = run.whole()[1:]
                    break
                gone.append(kept.pop(0))
            for run in reversed(gone):
                bare -= run.high - run.low
                self._pool.give(run)
        self._pool.give_bare(bare)

    def missing(self, table: Table, computed: int, tokens: int, prefill_end: int) -> int:
        """Free blocks that growing to `tokens` takes."""
        new = -(-tokens // self.size) - table.length
        return new if new > 0 else 0

    def grow(self, table: Table, tokens: int) -> int:
        """Note the blocks that are taken now, and return how many."""
        length = -(-tokens // self.size)
        new = length - table.length
        if new <= 0:
            return 0
        table.length = length
        return new

    def remember(self, table: Table, request: Request, tokens: int) -> None:
        """Hash the full blocks of the first `tokens`."""
        end = tokens // self.size
        low = table.hashed
        if low >= end:
            return
        table.hashed = end
        if self._dense:
            self._insert(table, request, max(low, table.start), end)
            return
        for first, stop in self._reachable(request, low, end):
            self._insert(table, request, max(first, table.start), stop)

    def _reachable(self, request: Request, low: int, end: int) -> list[tuple[int, int]]:
        """The blocks of a window that a later request may come to."""
        need = self._need()
        found: list[tuple[int, int]] = []
        if self._retention is None:  # the last ones before each multiple of the scheduler's block
            every = self._align // self.size
            ends = list(range((low // every + 1) * every, end + every, every))
        else:
            bounds = sorted({request.prompt - 1, request.junction or request.prompt - 1})
            ends = [bound // self._align * self._align // self.size for bound in bounds]
        for stop in ends:
            first, stop = max(stop - need, low), min(stop, end)
            if found and first < found[-1][1]:
                first = found[-1][1]
            if first < stop:
                found.append((first, stop))
        return found

    def _insert(self, table: Table, request: Request, low: int, high: int) -> None:
        if low >= high:
            return
        if request.path is None:
            self._texts.path(request)
        for node, _, stop in self._texts.spans(request, self.size, low):
            stop = min(stop, high)
            if low < stop:
                last = table.kept[-1] if table.kept else None
                if (
                    last is not None
                    and last.node is node
                    and node.parent is None
                    and last.high == low
                    and last.users == 1
                    and last.parts is None
                ):
                    last.high = stop  # nobody else can have these
                else:
                    run = Run(self._index, low, stop, node, 1)
                    node.insert(run)
                    self._pool.changes += 1
                    table.kept.append(run)
                low = stop
            if low >= high:
                return

    def drop(self, table: Table) -> None:
        """Give everything back, the last block first."""
        bare = table.length - table.start
        for run in reversed(table.kept):
            bare -= run.high - run.low
        if self._pool.unhashed_first:
            for run in reversed(table.kept):
                self._pool.give(run)
            self._pool.give_bare(bare)
            return
        at = table.length
        for held in reversed(table.kept):
            for run in reversed(held.whole()):
                self._pool.give_bare(at - run.high)
                self._pool.give(run)
                at = run.low
        self._pool.give_bare(at - table.start)


def unheld(pieces: list[tuple[Run, int, int]]) -> int:
    """Blocks of a hit that are free, so that reusing them takes free blocks."""
    return sum(high - low for run, low, high in pieces if not run.users)
