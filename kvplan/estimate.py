"""A figure that is known, or known to lie between two bounds, and who says so.

Bytes as integers. A sum of estimates adds bound to bound: the answer holds even if every part is
off in the same direction.
"""

from __future__ import annotations

from kvplan.named_tuple import NamedTuple


class Estimate(NamedTuple):
    """What a figure is at least, most likely and at most, and where it comes from."""

    low: int
    mid: int
    high: int
    origin: str

    @property
    def exact(self) -> bool:
        """Nothing is estimated."""
        return self.low == self.high

    def times(self, factor: float) -> Estimate:
        """The estimate scaled, each bound rounded down to a whole byte."""
        return self._replace(
            low=int(self.low * factor), mid=int(self.mid * factor), high=int(self.high * factor)
        )

    def plus(self, other: Estimate) -> Estimate:
        """The sum of both; the origin stays that of the first."""
        return self._replace(
            low=self.low + other.low, mid=self.mid + other.mid, high=self.high + other.high
        )

    def minus(self, other: Estimate) -> Estimate:
        """The difference; what is subtracted counts with its high bound for the low one."""
        return self._replace(
            low=self.low - other.high, mid=self.mid - other.mid, high=self.high - other.low
        )


def exactly(value: int, origin: str) -> Estimate:
    """A figure without doubt."""
    return Estimate(value, value, value, origin)
