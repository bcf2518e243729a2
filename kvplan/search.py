"""The largest count that still fits, where cost never falls as the count grows."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.units import MAX_COUNT


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest count in 1 .. `limit` that fits, 0 when 1 does not.

    Doubles until a count does not fit, then halves the gap: about 2 log2(answer) trials.
    """
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def largest_or_any(fits: Callable[[int], bool], limit: int | None = None) -> int | None:
    """The same up to `limit`, or without one; None when no count is too large."""
    found = largest(fits, limit or MAX_COUNT)
    return None if found == MAX_COUNT else found


def largest_near(
    guess: int | None, enough: Callable[[int], bool], limit: int | None = None
) -> int | None:
    """`largest_or_any`, with a guess that is confirmed in two steps where it is right."""
    if guess is not None and guess >= 0 and (limit is None or guess <= limit):
        holds = guess == 0 or enough(guess)
        if holds and (guess == limit or not enough(guess + 1)):
            return guess
    return largest_or_any(enough, limit)
