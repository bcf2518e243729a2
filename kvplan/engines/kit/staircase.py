"""Every cost as a staircase, in exact integers.

    bytes(tokens, batch) = (batch x ceil((fixed + sum of each x
                            floor((clamp(tokens, floor, cap) + lead) / size)) / divisor)
                            + once) x unit

A size, its inverses, a table of cells and a page that draws a curve all read the same staircase, so
there is one arithmetic. It is of one model under one set of options, of which the device is one:
it settles blocks and batched tokens, so two devices may give two staircases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvplan.named_tuple import NamedTuple
from kvplan.record import Record
from kvplan.search import largest
from kvplan.steps import Steps
from kvplan.units import MAX_COUNT


class Row(NamedTuple):
    """One length of a table: bytes of each batch, and what one more token adds to a sequence."""

    tokens: int
    bytes: list[int]
    bytes_per_token: int


class Staircase(Record):
    """The cost of `batch` sequences.

    Attributes:
        steps: of one sequence, in units times `divisor`.
        divisor: what the steps of a sequence are divided by, rounded up.
        once: units beside all sequences.
        unit: bytes of one.
        first, last: the lengths for which it holds; last None is no limit.
    """

    steps: Steps
    divisor: int = 1
    once: int = 0
    unit: int = 1
    first: int = 1
    last: int | None = None

    def holds(self, tokens: int) -> bool:
        """Whether it is valid for that length."""
        return self.first <= tokens and (self.last is None or tokens <= self.last)

    def units(self, tokens: int) -> int:
        """Units of one sequence."""
        return -(-self.steps.at(tokens) // self.divisor)

    def at(self, tokens: int, batch: int = 1) -> int:
        """Bytes of `batch` sequences of `tokens` tokens."""
        return (batch * self.units(tokens) + self.once) * self.unit

    def per_token(self, tokens: int) -> int:
        """Bytes that one more token adds to one sequence."""
        return (self.units(tokens + 1) - self.units(tokens)) * self.unit

    def most(self, room: int, tokens: int) -> int | None:
        """The largest batch of that length within `room` bytes, 0 for none, None without bound."""
        if not self.unit:
            return None if room >= 0 else 0
        spare = room // self.unit - self.once
        each = self.units(tokens)
        if each:
            return max(spare // each, 0)
        return None if spare >= 0 else 0

    def longest(self, room: int, batch: int = 1, limit: int | None = None) -> int | None:
        """The longest length within `room` bytes, up to `limit` and `last`; 0: none that it holds
        for, None: any."""
        ends = [end for end in (limit, self.last) if end is not None]
        top = min(ends, default=MAX_COUNT)
        if top < self.first or self.at(self.first, batch) > room:
            return 0
        if self.at(top, batch) <= room:
            return top if ends else None
        before = self.first - 1
        return before + largest(lambda more: self.at(before + more, batch) <= room, top - before)

    def breaks(self, first: int, last: int) -> Iterator[int]:
        """The lengths in first .. last at which a term of the steps grows, in any order."""
        for term in self.steps.terms:
            yield from term.breaks(first, last)

    def rows(self, lengths: Iterable[int], batches: Sequence[int]) -> Iterator[Row]:
        """A table, one row per length."""
        unit, once = self.unit, self.once * self.unit
        units = self.units
        for tokens in lengths:
            now = units(tokens)
            each = now * unit
            yield Row(
                tokens,
                [batch * each + once for batch in batches],
                (units(tokens + 1) - now) * unit,
            )
