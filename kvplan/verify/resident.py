"""Resident memory as Linux counts it: for chosen address ranges, and for the whole process.

`/proc/self/smaps` walks the page tables, so its figures are exact, unlike the counters of
`/proc/self/statm`, which newer kernels batch per CPU. A page counts in memory and in swap alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan.named_tuple import NamedTuple

_SMAPS = "/proc/self/smaps"
_ROLLUP = "/proc/self/smaps_rollup"
_STATUS = "/proc/self/status"
_CLEAR_REFS = "/proc/self/clear_refs"
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


class Peak:
    """The highest resident memory of the process from now on, above what it holds now."""

    def __init__(self) -> None:
        self._before: int | None = None
        try:
            with open(_CLEAR_REFS, "w", encoding="ascii") as file:
                file.write("5")  # sets the highest figure back to the present one
        except OSError:
            return
        self._before = self._highest()

    def growth(self) -> int | None:
        """Bytes above the start; None where the system does not say."""
        now = self._highest()
        return None if now is None or self._before is None else now - self._before

    def _highest(self) -> int | None:
        lines = (_read(_STATUS) or "").splitlines()
        return next(
            (int(line.split()[1]) * _KB for line in lines if line.startswith("VmHWM:")), None
        )


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
