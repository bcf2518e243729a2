"""The cache as a number: how many blocks are free.

Exact with full attention, latents and uncached states, as long as no prefix is found: without
prefix caching always, with it until somebody is preempted, whose own blocks may still be there.
"""

from __future__ import annotations

from kvplan.replay.calendar import Weights
from kvplan.replay.depth import Depth
from kvplan.replay.facts import FULL, Facts
from kvplan.replay.request import Request


class CountingCache:
    """See `events.Calendar`."""

    def __init__(self, facts: Facts) -> None:
        self.free = facts.usable_blocks
        self.changes = 0
        self.refused_all = False
        self.depth = Depth()
        self._usable = facts.usable_blocks
        self._weights = Weights(facts)
        sizes = [group.block_size for group in facts.groups if group.kind == FULL]
        self._sizes = sizes
        self._only = sizes[0] if len(sizes) == 1 else 0
        self._once = len(facts.groups) - len(sizes)  # states: one block each, to the end
        self._reserve_full = facts.reserve_full
        self._watermark = facts.watermark_blocks

    def blocks(self, tokens: int) -> int:
        """Blocks of a request of so many tokens."""
        if self._only:
            return -(-tokens // self._only) + self._once
        return sum(-(-tokens // size) for size in self._sizes) + self._once

    def find(self, request: Request) -> int:
        """Nothing is found."""
        return 0

    def admit(self, request: Request, reused: int, new: int, *, alone: bool) -> bool:
        """As `BlockCache.admit`."""
        free = self.free if alone else self.free - self._watermark
        count = self.blocks(new)
        needed = self.blocks(request.prompt + request.seen) if self._reserve_full else count
        if needed > free:
            self.refused_all = self._reserve_full
            self.depth.refused = True
            return False
        self.depth.admission(self._usable - self.free + needed, alone=alone)
        self.free -= count
        return True

    def extend(self, request: Request, new: int) -> bool:
        """As `BlockCache.extend`."""
        computed = request.computed
        count = self.blocks(computed + new) - self.blocks(computed)
        if count > self.free:
            return False
        self.free -= count
        return True

    def release_at(self, request: Request, computed: int, hashed: int) -> None:
        """As `BlockCalendar.release_at`."""
        self.free += self.blocks(computed)
        self.changes += 1

    def forget(self, request: Request) -> None:
        """Nothing is kept of a request."""

    def start(self, request: Request, clock: int) -> None:
        """As `BlockCalendar.start`."""
        self._weights.add(request.base, 1)

    def stop(self, request: Request) -> None:
        """As `BlockCalendar.stop`."""
        self._weights.add(request.base, -1)

    def advance(self, clock: int) -> bool:
        """As `BlockCalendar.advance`."""
        count = self._weights.at(clock)
        if count > self.free:
            return False
        self.free -= count
        return True

    def needs(self, request: Request, clock: int) -> bool:
        """As `BlockCalendar.needs`."""
        return self._weights.needs(request.base + clock)

    def advanced(self, clock: int) -> None:
        """As `BlockCalendar.advanced`."""
