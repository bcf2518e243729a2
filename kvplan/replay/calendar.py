"""The cache block for block, with a calendar of when decoding requests need something of it.

Where every block of a decoding request stays to the end, its next one comes every `block_size`
steps, so only how many come in a step is kept, by the remainder of the clock. With windows each
request has its next step noted: a block more, or one less.
"""

from __future__ import annotations

from kvplan.arithmetic import ceil_div
from kvplan.replay.cache import BlockCache
from kvplan.replay.facts import FULL, SLIDING, STATE, Facts
from kvplan.replay.request import Request


class Weights:
    """Blocks that decoding requests take in a step, by the remainder of the clock."""

    __slots__ = ("_by_size",)

    def __init__(self, facts: Facts) -> None:
        sizes: dict[int, int] = {}
        for group in facts.groups:
            if group.kind == FULL:
                sizes[group.block_size] = sizes.get(group.block_size, 0) + 1
        self._by_size = [(size, count, [0] * size) for size, count in sizes.items()]

    def add(self, base: int, sign: int) -> None:
        """A request that takes a block whenever base + clock is a multiple of a block's tokens."""
        for size, count, weights in self._by_size:
            weights[-base % size] += sign * count

    def at(self, clock: int) -> int:
        """Blocks that are taken in a step."""
        total = 0
        for size, _, weights in self._by_size:
            total += weights[clock % size]
        return total

    def needs(self, computed: int) -> bool:
        """Whether a request takes a block with its next token."""
        return any(not computed % size for size, _, _ in self._by_size)


def only_grows(facts: Facts) -> bool:
    """Whether no block of a request is given back before its end."""
    return all(
        group.kind == FULL or (group.kind == STATE and not facts.prefix_caching)
        for group in facts.groups
    )


class BlockCalendar(BlockCache):
    """See `events.Calendar`."""

    def __init__(self, facts: Facts, unit: int) -> None:
        super().__init__(facts, unit)
        self._lag = facts.lag
        self._basis = facts.lag if facts.switches.processed_basis else 0
        self._steady = only_grows(facts)
        self._weights = Weights(facts)
        self._notes: dict[int, list[Request]] = {}
        self._now: list[Request] = []
        self._most = len(facts.groups)  # blocks that one step of a request takes

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.pool.free

    @property
    def changes(self) -> int:
        """A number that is another whenever more may fit, or be found, than before."""
        return self.pool.changes

    def start(self, request: Request, clock: int) -> None:
        """A request decodes from the step after `clock` on."""
        if self._steady:
            self._weights.add(request.base, 1)
        else:
            self._note(request, clock + 1)

    def stop(self, request: Request) -> None:
        """A request decodes no more."""
        if self._steady:
            self._weights.add(request.base, -1)

    def advance(self, clock: int) -> bool:
        """Take the blocks of a step; False, and nothing is taken, when they may not fit."""
        if self._steady:
            count = self._weights.at(clock)
            if count > self.pool.free:
                return False
            if count:
                self.pool.take(count)
            return True
        now = self._notes.pop(clock, None)
        if now is None:
            self._now = []
            return True
        now = self._now = [
            request for request in dict.fromkeys(now)
            if request.running and request.started < clock <= request.due
        ]  # fmt: skip
        if len(now) * self._most > self.pool.free:
            return False
        if len(now) > 1:
            now.sort(key=_order)
        for request in now:
            self._settle(request, clock)
            request.decode_at(clock, self._lag)
            if not self.extend(request, 1):
                raise AssertionError("a step's blocks were counted wrongly")
        self.advanced(clock)
        return True

    def needs(self, request: Request, clock: int) -> bool:
        """Whether a decoding request needs something in a step that did not fit at once."""
        if not self._steady:
            if request not in self._now:
                return False
            self._settle(request, clock)
            return True
        computed = request.base + clock
        if not self._weights.needs(computed):
            return False
        self._catch_up(request, computed)
        return True

    def advanced(self, clock: int) -> None:
        """Note the next steps of those that had one now."""
        for request in self._now:
            if request.running and clock < request.due:
                self._note(request, self._following(request, clock))
        self._now = []

    def release_at(self, request: Request, computed: int, hashed: int) -> None:
        """Give the blocks of `computed` tokens back, of which `hashed` can be found."""
        if self._steady:
            self._catch_up(request, computed)
        self.remember(request, hashed)
        self.release(request)

    def _settle(self, request: Request, clock: int) -> None:
        """Hash what earlier steps filled, before a chunk that ends with it is given back."""
        late = self._lag if clock - 1 > request.started else 0
        self.remember(request, request.base + clock - late)

    def _note(self, request: Request, clock: int) -> None:
        if clock <= request.due:
            self._notes.setdefault(clock, []).append(request)

    def _following(self, request: Request, clock: int) -> int:
        """The next step in which a request takes or gives a block."""
        computed = request.base + clock
        if clock == request.started + 1:
            return clock + 1  # what its last chunk left behind is known then
        tables = request.tables
        assert tables is not None
        soonest = request.due - clock + computed + 1
        for group, table in zip(self._facts.groups, tables, strict=True):
            size = group.block_size
            soonest = min(soonest, (computed // size + 1) * size)
            if group.kind == FULL or group.kind == STATE:
                continue
            if group.kind == SLIDING:
                leaves = (table.start + 1) * size + group.window - 1
            else:
                leaves = (table.start * size // group.chunk + 1) * group.chunk
            soonest = min(soonest, max(leaves + self._basis, computed + 1))
        return soonest - request.base

    def _catch_up(self, request: Request, computed: int) -> None:
        tables = request.tables
        assert tables is not None
        for group, table in zip(self._facts.groups, tables, strict=True):
            if group.kind == FULL:
                table.length = max(table.length, ceil_div(computed, group.block_size))


def _order(request: Request) -> int:
    return request.order
