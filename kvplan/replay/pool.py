"""The pool of blocks: who is free, and in which order the free ones are taken.

Blocks without a hash are all alike, so they are only counted; hashed ones are runs of neighbours of
one text. Free blocks without a hash are taken first, then hashed ones, the longest unused first and
each run from its end, since a request gives its last block back first.
Source: vllm 0.33.0, v1/core/block_pool.py.
"""

from __future__ import annotations

from itertools import pairwise

from kvplan.replay.nodes import Run


class Pool:
    """Blocks, free and held.

    Args:
        usable: blocks that requests can hold.
        unhashed_first: see `Switches`.
    """

    def __init__(self, usable: int, *, unhashed_first: bool = True) -> None:
        self.usable = usable
        self.free = usable
        self.changes = 0  # grows whenever more may fit, or be found, than before
        self._bare = usable  # free blocks without a hash, in front of all others
        self.unhashed_first = unhashed_first
        self._ends = ends = Run(-1, 0, 0, None, 0)
        ends.before = ends.after = ends

    @property
    def used(self) -> int:
        """Blocks that requests hold."""
        return self.usable - self.free

    def take(self, count: int) -> None:
        """Hand out free blocks; the caller has checked that there are so many."""
        self.free -= count
        if count <= self._bare:
            self._bare -= count
            return
        count -= self._bare
        self._bare = 0
        while count:
            run = self._ends.after
            assert run is not None
            size = run.high - run.low
            if size > count:
                run.high -= count
                return
            count -= size
            self._unlink(run)
            run.high = run.low
            if run.node is not None:
                run.node.drop(run)

    def give_bare(self, count: int) -> None:
        """Take back blocks without a hash."""
        self.free += count
        self.changes += count
        if self.unhashed_first:
            self._bare += count
        elif count:
            self._link(Run(-1, 0, count, None, 0))

    def give(self, run: Run) -> None:
        """One user of a run less; without any it waits at the end of the queue."""
        self.changes += 1
        for part in reversed(run.whole()):
            part.users -= 1
            if not part.users:
                self.free += part.high - part.low
                self._link(part)

    def touch(self, run: Run, low: int, high: int, into: list[Run]) -> None:
        """One user more of some blocks of a run; the runs that are exactly those go into `into`."""
        if run.parts is not None:
            for part in run.parts:
                first, end = max(low, part.low), min(high, part.high)
                if first < end:
                    self.touch(part, first, end, into)
            return
        run = self.cut(run, low, high)
        if not run.users:
            self.free -= run.high - run.low
            self._unlink(run)
        run.users += 1
        into.append(run)

    def cut(self, run: Run, low: int, high: int) -> Run:
        """The run that is exactly `low` .. `high` - 1, cut out of a longer one."""
        if low == run.low and high == run.high:
            return run
        bounds = sorted({run.low, low, high, run.high})
        parts = [Run(run.group, first, end, run.node, run.users) for first, end in pairwise(bounds)]
        if run.node is not None:
            run.node.replace(run, parts)
        if not run.users:
            after = run.after
            assert after is not None
            self._unlink(run)
            for part in parts:  # each in front of the one before: the last block goes first
                self._link(part, after)
                after = part
        run.parts = parts
        return next(part for part in parts if part.low == low)

    def _link(self, run: Run, after: Run | None = None) -> None:
        after = after or self._ends
        before = after.before
        assert before is not None
        run.before, run.after = before, after
        before.after = after.before = run

    @staticmethod
    def _unlink(run: Run) -> None:
        before, after = run.before, run.after
        assert before is not None
        assert after is not None
        before.after, after.before = after, before
        run.before = run.after = None
