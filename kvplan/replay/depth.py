"""How deep a run went into its pool, checks included: the smallest pool that changes nothing.

A pool of fewer blocks than the deepest check asked for would have refused somebody, or preempted;
one of as many does exactly the same. Where prefixes are found, a smaller pool forgets sooner too,
so there is no such number.
"""

from __future__ import annotations

from kvplan.replay.facts import Facts


class Depth:
    """Blocks held plus blocks asked for, at the deepest.

    Attributes:
        refused: a check failed, so the run was not ample.
    """

    __slots__ = ("_deepest", "_kept", "refused")

    def __init__(self) -> None:
        self._deepest = 0
        self._kept = 0  # of checks that leave the watermark free
        self.refused = False

    def admission(self, blocks: int, *, alone: bool) -> None:
        """An admission that was granted: blocks held before, and all it asked for."""
        if alone:
            self._deepest = max(self._deepest, blocks)
        elif blocks > self._kept:
            self._kept = blocks

    def held(self, blocks: int) -> None:
        """Blocks held after a step of one request."""
        if blocks > self._deepest:
            self._deepest = blocks

    def smallest_pool(self, facts: Facts, peak: int) -> int | None:
        """Blocks of the smallest pool, the null block included; None when this one is too small.

        Args:
            peak: most blocks held after a step.
        """
        if self.refused:
            return None
        blocks = max(self._deepest, self._kept, peak) + 1
        while blocks - 1 < self._kept + int(facts.watermark * blocks):
            blocks += 1
        return blocks
