"""What grows with the tokens of a sequence, as steps: the one form that every count in a cache has.

    at(tokens) = fixed + sum of each x floor((clamp(tokens, floor, cap) + lead) / size)

A sliding window is one token a step and a cap; blocks of 16 are steps of 16 that begin early, with
a lead of 15; a state that a sequence keeps once is `fixed` alone. Exact integers, no unit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kvplan.arithmetic import round_up
from kvplan.named_tuple import NamedTuple


class Step(NamedTuple):
    """One term: `each` more for every `size` tokens between `floor` and `cap`.

    Attributes:
        each: what one step adds.
        size: tokens from one step to the next.
        lead: tokens by which each step comes early: size - 1 counts a piece that has begun.
        floor: fewer tokens count as this many.
        cap: more tokens count as this many; None without such a limit.
    """

    each: int
    size: int = 1
    lead: int = 0
    floor: int = 0
    cap: int | None = None

    def at(self, tokens: int) -> int:
        """The term after `tokens` tokens."""
        if tokens < self.floor:
            tokens = self.floor
        if self.cap is not None and tokens > self.cap:
            tokens = self.cap
        return self.each * ((tokens + self.lead) // self.size)

    def breaks(self, first: int, last: int) -> Iterator[int]:
        """The numbers of tokens in first .. last at which it is more than one token earlier."""
        low = max(first, self.floor + 1)
        high = last if self.cap is None else min(last, self.cap)
        begin = round_up(low + self.lead, self.size) - self.lead
        yield from range(begin, high + 1, self.size)


class Steps(NamedTuple):
    """A sum of terms and what does not depend on the tokens."""

    fixed: int = 0
    terms: tuple[Step, ...] = ()

    def at(self, tokens: int) -> int:
        """The value after `tokens` tokens."""
        if len(self.terms) == 1:
            return self.fixed + self.terms[0].at(tokens)
        return self.fixed + sum(term.at(tokens) for term in self.terms)


def pieces(size: int, *, cap: int | None = None, floor: int = 0) -> Step:
    """How many pieces of `size` tokens cover a sequence: the last one counts in full."""
    return Step(1, size, size - 1, floor, cap)


def largest_of(steps: Collection[Steps]) -> Steps | None:
    """The steps that are never less than any other; None where no one is by its form alone.

    Of pieces that differ in their size, the smallest are the most.
    """
    first, *others = steps
    if not others:
        return first
    if any(each.fixed or len(each.terms) != 1 for each in steps):
        return None
    terms = [each.terms[0] for each in steps]
    if any(term != pieces(term.size) for term in terms):
        return None
    return Steps(0, (min(terms, key=lambda term: term.size),))


def total(parts: Iterable[tuple[int, Steps]]) -> Steps:
    """The sum of some steps, each so many times; like terms are put together."""
    fixed = 0
    found: dict[tuple[int, int, int, int | None], int] = {}
    for times, steps in parts:
        fixed += times * steps.fixed
        for each, *shape in steps.terms:
            key = tuple(shape)
            found[key] = found.get(key, 0) + times * each  # type: ignore[index,arg-type]
    return Steps(fixed, tuple(Step(each, *key) for key, each in found.items() if each))
