"""`roundup_power2_divisions`: steps per power of two, for 16 intervals of sizes.

    8                        8 steps for all sizes
    [256:1,512:4,>:8]        none below 512 MiB, 4 up to 1 GiB, 8 above

The first entry of a list also covers everything below it; a later one covers only the interval
from its size to twice its size, so an interval between two entries keeps what it had; `>` covers
the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.allocator.options import REST_BEGINS_ABOVE_SINCE, Version
from kvplan.allocator.rounding import DIVISION_INTERVALS
from kvplan.allocator.values import integer, is_power_of_two, refuse

Divisions = tuple[int, ...]  # 16 entries: [1, 2) MiB, [2, 4) MiB, ..., 32 GiB and more

NAME = "roundup_power2_divisions"
NONE: Divisions = (0,) * DIVISION_INTERVALS

_ENTRY = re.compile(r"(\d+|>):(\d+)(?:,|$)")


def read_divisions(value: str, before: Divisions, version: Version) -> Divisions:
    """The steps after reading `value`; `before` is what a list leaves where it says nothing."""
    if value.startswith("["):
        entries = list(_entries(value))
        return _apply(entries, list(before), rest_begins_above=version >= REST_BEGINS_ABOVE_SINCE)
    steps = integer(NAME, value)
    if not is_power_of_two(steps):
        raise refuse(NAME, value, "a power of two, or a list")
    return (steps,) * DIVISION_INTERVALS


def _entries(value: str) -> Iterator[tuple[int | None, int]]:
    """`[256:1,>:4]` -> (256, 1), (None, 4); None stands for the rest."""
    rest = value[1:-1]
    while rest:
        match = _ENTRY.match(rest)
        if match is None:
            raise refuse(NAME, value, "entries SIZE_MB:STEPS or >:STEPS")
        size_mb = None if match[1] == ">" else int(match[1])
        steps = int(match[2])
        if size_mb is not None and not is_power_of_two(size_mb):
            raise refuse(NAME, value, "sizes that are powers of two")
        if steps and not is_power_of_two(steps):
            raise refuse(NAME, value, "steps that are 0 or a power of two")
        yield size_mb, steps
        rest = rest[match.end() :]


def _apply(
    entries: list[tuple[int | None, int]], divisions: list[int], *, rest_begins_above: bool
) -> Divisions:
    last = 0
    is_first = True
    for size_mb, steps in entries:
        if size_mb is None:
            covered = range(last + 1 if rest_begins_above else last, DIVISION_INTERVALS)
        else:
            last = min(size_mb.bit_length() - 1, DIVISION_INTERVALS - 1)
            covered = range(0 if is_first else last, last + 1)
            is_first = False
        for interval in covered:
            divisions[interval] = steps
    return tuple(divisions)
