"""Recurrent states at the ends of blocks, so that prefixes can be found ("align").

A request holds one state; when its text comes to a new block, the new one is taken while the old
one is copied from, and that is given back one allocation later. A kernel that exports the state
inside a prefill takes one block more for it. In between the table is empty. A state that was hashed
in this step is there in the next one only. Source: vllm 0.33.0, v1/core/single_type_kv_cache_
manager.py MambaManager, v1/core/sched/scheduler.py _mamba_block_aligned_split.
"""

from __future__ import annotations

from kvplan.arithmetic import ceil_div
from kvplan.replay.facts import STATE, Facts
from kvplan.replay.lookup import Hit
from kvplan.replay.nodes import Node, Run, Table
from kvplan.replay.pool import Pool
from kvplan.replay.request import Request
from kvplan.replay.tables import unheld
from kvplan.replay.texts import Texts

Place = tuple[Node, int, int]  # node, group, block


class StateTable(Table):
    """States of one request in one group.

    Attributes:
        blocks: those it holds, by block of its text; None for one without a hash.
        allocated: it was scheduled before.
        last: where the state before the running one is.
        retired: blocks below which all were given back.
        checkpoint: where this step exports a state, None for nowhere.
    """

    __slots__ = ("allocated", "blocks", "checkpoint", "last", "retired")

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[int, Run | None] = {}
        self.allocated = False
        self.last: int | None = None
        self.retired = 0
        self.checkpoint: int | None = None


class States:
    """A group of cached states."""

    def __init__(
        self, index: int, facts: Facts, pool: Pool, texts: Texts, fresh: set[Place]
    ) -> None:
        self.group = facts.groups[index]
        self.size = self.group.block_size
        self._index = index
        self._pool = pool
        self._texts = texts
        self._fresh = fresh  # states that were hashed in this step
        self._align = facts.scheduler_block
        self._hash_block = facts.hash_block
        self._never = facts.num_blocks + 1
        self._retention = facts.retention

    def new_table(self) -> StateTable:
        """An empty table."""
        return StateTable()

    def missing_for(
        self, table: Table, hit: Hit, tokens: int, reused: int, prefill_end: int, *, capped: bool
    ) -> int:
        """As `Attention.missing_for`; more than there is for a state of this very step."""
        if hit.pieces:
            run, _, high = hit.pieces[-1]
            assert run.node is not None
            if (run.node, self._index, high - 1) in self._fresh:
                return self._never
        assert isinstance(table, StateTable)
        new = self._new(table, hit.blocks, reused, tokens, prefill_end, check_only=capped)
        return new + unheld(hit.pieces)

    def _new(
        self,
        table: StateTable,
        found: int,
        computed: int,
        tokens: int,
        prefill_end: int,
        *,
        check_only: bool,
    ) -> int:
        new = ceil_div(tokens, self.size) - found - table.length
        place = ceil_div(tokens, self.size) - 2
        exports = (
            self.group.checkpoints
            and tokens >= prefill_end
            and exports_inside(computed, tokens, last_end(tokens, self._align), self._hash_block,
                               self.size)
            and place >= 0
            and (place >= table.length or place not in table.blocks)
        )  # fmt: skip
        if not check_only:
            table.checkpoint = place if exports else None
        return min(new, 1 + exports) if new > 0 else new

    def adopt(self, table: Table, hit: Hit, reused: int) -> None:
        """As `Attention.adopt`."""
        if not reused or not hit.pieces:
            return
        assert isinstance(table, StateTable)
        run, low, high = hit.pieces[-1]
        into: list[Run] = []
        self._pool.touch(run, low, high, into)
        table.blocks[hit.blocks - 1] = into[0]
        table.length = table.hashed = hit.blocks

    def shrink(self, table: Table, settled: int) -> None:
        """Give back the states before the running one."""
        assert isinstance(table, StateTable)
        end = min(max(settled - 1, 0) // self.size, table.length)
        if settled > 1 and table.retired < end:
            for block in range(end - 1, table.retired - 1, -1):
                self._give(table, block)
            table.retired = end
        if table.last is not None and table.last < ceil_div(settled, self.size) - 1:
            self._give(table, table.last)

    def _give(self, table: StateTable, block: int) -> None:
        if block not in table.blocks:
            return
        run = table.blocks.pop(block)
        if run is None:
            self._pool.give_bare(1)
        else:
            self._pool.give(run)

    def missing(self, table: Table, computed: int, tokens: int, prefill_end: int) -> int:
        """As `Attention.missing`; it decides whether this step exports a state."""
        assert isinstance(table, StateTable)
        return self._new(table, 0, computed, tokens, prefill_end, check_only=False)

    def grow(self, table: Table, tokens: int) -> int:
        """As `Attention.grow`."""
        assert isinstance(table, StateTable)
        wanted = ceil_div(tokens, self.size)
        exports = table.checkpoint is not None
        if wanted <= table.length and not exports:
            table.allocated = True
            return 0
        if table.allocated or table.length:
            table.last = table.length - 1
        table.length = max(table.length, wanted - 1 - exports)
        new = max(wanted - table.length, 0)
        for block in range(table.length, wanted):
            table.blocks[block] = None
        table.length = max(table.length, wanted)
        table.allocated = True
        return new

    def remember(self, table: Table, request: Request, tokens: int) -> None:
        """Hash the states that a later request may come to."""
        assert isinstance(table, StateTable)
        end = tokens // self.size
        low = table.hashed
        if low >= end:
            return
        table.hashed = end
        wanted = range(low, end)
        if self._retention is not None:
            bounds = (request.prompt - 1, request.junction or request.prompt - 1)
            wanted_ends = {bound // self._align * self._align // self.size for bound in bounds}
            places = sorted(stop - 1 for stop in wanted_ends if low <= stop - 1 < end)
        else:
            places = list(wanted)
        for block in places:
            if block not in table.blocks:
                continue
            node = next(iter(self._texts.spans(request, self.size, block)))[0]
            run = Run(self._index, block, block + 1, node, 1)
            node.insert(run)
            table.blocks[block] = run
            self._fresh.add((node, self._index, block))

    def drop(self, table: Table) -> None:
        """Give everything back, the last block first."""
        assert isinstance(table, StateTable)
        for block in sorted(table.blocks, reverse=True):
            self._give(table, block)


def last_end(tokens: int, size: int) -> int:
    """The last multiple of `size` that leaves one token to compute."""
    return max((tokens - 1) // size * size, 0)


def exports_inside(start: int, end: int, place: int, hash_block: int, size: int) -> bool:
    """Whether a chunk `start` .. `end` can export the state at `place`."""
    return (
        start % hash_block == 0
        and ceil_div(end, size) - 2 > (start - 1) // size
        and start + hash_block <= place
        and start < place < end
    )


def aligned(request: Request, facts: Facts, start: int, new: int) -> int:
    """A prefill chunk cut to end where a state must be kept; 0 when it gets nothing now."""
    prefill_end = max(request.prompt, request.known - 1)
    if start >= prefill_end:
        return new
    states = [group for group in facts.groups if group.kind == STATE]
    size, hash_block = states[0].block_size, facts.hash_block
    end = start + new
    place = last_end(prefill_end, facts.scheduler_block)
    inside = (
        all(group.checkpoints for group in states)
        and end >= prefill_end
        and exports_inside(start, end, place, hash_block, size)
    )
    last = 0 if inside else last_end(request.known, size)
    if end < prefill_end:
        most = facts.max_num_batched_tokens
        if facts.long_prefill_token_threshold:
            most = min(most, facts.long_prefill_token_threshold)
        cut = end // size * size
        if cut > start or size <= most:
            end = cut
    boundary = (start // size + 1) * size if start % size and not inside else 0
    junction = request.junction
    kept = start + (junction - start) // size * size if start < junction < end else 0
    end = min((stop for stop in (boundary, last, kept) if start < stop < end), default=end)
    return max(end - start, 0)
