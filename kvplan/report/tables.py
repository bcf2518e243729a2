"""Tables without lines that fit the width: headings wrap, then columns leave, before a cell breaks.

Columns leave on a terminal only: what reads a pipe or a file looks for something, so there a table
is as wide as it must be. Tables read well where line characters are missing and paste well into
text. On a terminal a bar shows the share of each row, as wide as there is room.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kvplan.named_tuple import NamedTuple
from kvplan.report.console import GAP, Column, Console


class _Width(NamedTuple):
    least: int
    natural: int


_BAR = Column("", rank=1)
_BAR_WIDTH = _Width(8, 20)


def print_table(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    shares: Sequence[float] | None = None,
) -> None:
    """Print a table.

    Args:
        console: where to.
        columns: the columns.
        rows: the cells of each row.
        shares: the share (of 1) of each row, to draw on a terminal.
    """
    columns = list(columns)
    widths = [
        _measured(console, column, [row[i] for row in rows]) for i, column in enumerate(columns)
    ]
    terminal = console.terminal
    bars = shares if shares is not None and terminal else None
    if bars is not None:
        columns.append(_BAR)
        widths.append(_BAR_WIDTH)
    room = console.width
    if terminal:
        kept = _fitting(columns, widths, room)
    else:
        kept = list(range(len(columns)))
        room = max(room, _least(widths, kept))
    given = _spread([widths[i] for i in kept], room)
    shown = []
    for number, row in enumerate(rows):
        cells = [*row, bar(bars[number], given[-1] or 0)] if bars is not None else row
        shown.append([cells[i] for i in kept])
    console.table([columns[i] for i in kept], given, shown, width=room)


def bar(share: float, width: int) -> str:
    """A bar for a share of 1, in characters the terminal's encoding has."""
    unicode = (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf")
    return ("█" if unicode else "#") * max(round(share * width), 1 if share > 0 else 0)


def _measured(console: Console, column: Column, cells: Sequence[str]) -> _Width:
    breakable = [column.heading, *(cells if column.justify == "left" else ())]
    words = [word for text in breakable for word in text.split()]
    whole = cells if column.justify == "right" else ()
    least = max(column.least, *map(console.cells, (*words, *whole)), 0)
    return _Width(least, max(least, *map(console.cells, (column.heading, *cells))))


def _fitting(columns: Sequence[Column], widths: Sequence[_Width], room: int) -> list[int]:
    """The columns that stay."""
    kept = list(range(len(columns)))
    while _least(widths, kept) > room:
        leaves = max(kept, key=lambda i: (columns[i].rank, i))
        if columns[leaves].rank == 0:
            break
        kept.remove(leaves)
    return kept


def _least(widths: Sequence[_Width], kept: Sequence[int]) -> int:
    """The least width of a table of some columns."""
    return sum(widths[i].least + GAP for i in kept) - GAP


def _spread(widths: Sequence[_Width], room: int) -> list[int | None]:
    """A width for each column; None leaves it to rich, when cells have to break."""
    spare = room - sum(width.least + GAP for width in widths) + GAP
    if spare < 0:
        return [None] * len(widths)
    given: list[int | None] = []
    for width in widths:
        more = min(spare, width.natural - width.least)
        given.append(width.least + more)
        spare -= more
    return given
