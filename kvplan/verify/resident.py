"""Resident memory as Linux counts it: for chosen address ranges, and for the whole process.

`/proc/self/smaps` walks the page tables, so its figures are exact, unlike the counters of
`/proc/self/statm`, which newer kernels batch per CPU. A page counts in memory and in swap alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SMAPS = "/proc/self/smaps"
_ROLLUP = "/proc/self/smaps_rollup"
_HEADER = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")
_KB = 1024  # smaps writes kB for 1024 bytes


class Area(NamedTuple):
    """One mapping of the process: its addresses, and bytes of it in memory or in swap."""

    start: int
    end: int
    held: int


def areas(text: str) -> Iterator[Area]:
    """Every mapping in the text of an smaps file."""
    start = end = held = 0
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header is not None:
            if end:
                yield Area(start, end, held)
            start, end, held = int(header[1], 16), int(header[2], 16), 0
        elif line.startswith(("Rss:", "Swap:")):
            held += int(line.split()[1]) * _KB
    if end:
        yield Area(start, end, held)


def held_in(ranges: Sequence[tuple[int, int]]) -> int | None:
    """Bytes held in address ranges (start, end), each on page boundaries.

    None when the system does not say, or when a mapping reaches beyond the ranges, because then
    it counts pages of someone else.
    """
    text = _read(_SMAPS)
    if text is None:
        return None
    joined = _joined(ranges)
    held = 0
    for area in areas(text):
        over = [(start, end) for start, end in joined if start < area.end and area.start < end]
        if not over:
            continue
        if len(over) > 1 or area.start < over[0][0] or over[0][1] < area.end:
            return None
        held += area.held
    return held


def process_anonymous() -> int | None:
    """Bytes of the process that no file backs, in memory or in swap; None if not said."""
    text = _read(_ROLLUP)
    if text is None:
        return None
    found = [
        int(line.split()[1]) * _KB
        for line in text.splitlines()
        if line.startswith(("Anonymous:", "Swap:"))
    ]
    return sum(found) if found else None


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same addresses with neighbours joined: the kernel joins neighbouring mappings too."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None
