"""A long list of layer kinds, written short: runs of equal layers and repeating patterns, once.

    a a a a b a a a a b a a   ->   [{repeat: 2, of: [{repeat: 4, of: a}, b]}, {repeat: 2, of: a}]

The cheapest description is found exactly, by dynamic programming over the position, where a name
costs 1 and a repetition costs 1 more than what it repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MAX_PERIOD = 64


def compress(names: Sequence[str]) -> list[Any]:
    """Entries of a spec's `layers` list that expand to `names`."""
    return _describe(tuple(names), {})[1]


def _describe(
    names: tuple[str, ...], known: dict[tuple[str, ...], tuple[int, list[Any]]]
) -> tuple[int, list[Any]]:
    """(cost, entries) of the cheapest description of `names`."""
    if names in known:
        return known[names]
    periods = range(1, min(_MAX_PERIOD, len(names) // 2) + 1)
    repeats = {period: _repeats(names, period) for period in periods}
    # best[i]: cheapest description of names[i:]; the end costs nothing.
    best: list[tuple[int, list[Any]]] = [(0, [])] * (len(names) + 1)
    for start in range(len(names) - 1, -1, -1):
        rest = best[start + 1]
        cheapest = (1 + rest[0], [names[start], *rest[1]])
        for period in periods:
            count = repeats[period][start]
            if count < (3 if period == 1 else 2):  # a pair of names is as short written out
                continue
            unit = names[start : start + period]
            cost, entries = (1, [unit[0]]) if period == 1 else _describe(unit, known)
            rest = best[start + period * count]
            if cost + 1 + rest[0] < cheapest[0]:
                run = {"repeat": count, "of": entries[0] if len(entries) == 1 else entries}
                cheapest = (cost + 1 + rest[0], [run, *rest[1]])
        best[start] = cheapest
    known[names] = best[0]
    return best[0]


def _repeats(names: tuple[str, ...], period: int) -> list[int]:
    """At each position, how often the next `period` names stand there in a row."""
    same = [0] * (len(names) + 1)  # names in a row that equal the one a period later
    for start in range(len(names) - period - 1, -1, -1):
        if names[start] == names[start + period]:
            same[start] = same[start + 1] + 1
    return [1 + length // period for length in same]
