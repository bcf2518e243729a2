"""What a page is written on, and the plain one: text without colour, for a pipe or a file.

Plain text needs no rich, whose import takes longer than the answer. It lays out ASCII whose words
all fit a line; whatever else a page holds (wide characters, a word to be cut), rich does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from kvplan.named_tuple import NamedTuple

GAP = 2  # blanks between columns


class Column(NamedTuple):
    """One column.

    Attributes:
        heading: its name; it may wrap between words.
        justify: numbers to the right, never broken; text to the left, broken between words.
        rank: 0 stays whatever the width; of the others the highest leaves a terminal first.
        least: cells it must have room for, beside its longest word.
    """

    heading: str
    justify: Literal["left", "right"] = "left"
    rank: int = 0
    least: int = 0


class Console(Protocol):
    """What a page is written on.

    Attributes:
        width: cells of a line.
        terminal: a person sees it at once, and its width is a bound.
    """

    width: int
    terminal: bool

    def print(self, text: str = "", *, style: str = "") -> None:
        """Add a paragraph; it wraps between words."""

    def cells(self, text: str) -> int:
        """Cells that a text takes on a line."""

    def wrap(self, text: str, width: int) -> list[str]:
        """The lines of a paragraph of that width."""

    def table(
        self,
        columns: Sequence[Column],
        widths: Sequence[int | None],
        rows: Sequence[Sequence[str]],
        *,
        width: int,
    ) -> None:
        """Add a table without lines; None leaves a column's width open."""

    def text(self) -> str:
        """All that was added."""


class NotPlain(Exception):
    """A text that is more than ASCII words that fit their lines."""


class PlainConsole:
    """Text without colour."""

    terminal = False

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines: list[str] = []

    def print(self, text: str = "", *, style: str = "") -> None:
        for line in text.split("\n"):
            self._lines += self.wrap(line, self.width)

    def cells(self, text: str) -> int:
        if not text.isascii():
            raise NotPlain
        return len(text)

    def wrap(self, text: str, width: int) -> list[str]:
        if not text.isascii() or not text.isprintable():
            raise NotPlain
        lines, start, used = [], 0, 0
        for word in re.finditer(r"\s*\S+\s*", text):
            needed = len(word[0].rstrip())
            if needed > width:
                raise NotPlain
            if used + needed > width:
                lines.append(text[start : word.start()])
                start, used = word.start(), 0
            used += len(word[0])
        return [*lines, text[start:]]

    def table(
        self,
        columns: Sequence[Column],
        widths: Sequence[int | None],
        rows: Sequence[Sequence[str]],
        *,
        width: int,
    ) -> None:
        headings = [column.heading for column in columns]
        widths = self._open_empty(widths, width)
        for row in (headings, *rows):
            cells = []
            for column, room, cell in zip(columns, widths, row, strict=True):
                if room is None:
                    raise NotPlain
                found = [line.rstrip() for line in self.wrap(cell, room)]
                right = column.justify == "right"
                cells.append([line.rjust(room) if right else line.ljust(room) for line in found])
            height = max(map(len, cells))
            for room, shown in zip(widths, cells, strict=True):
                rest = [" " * (room or 0)] * (height - len(shown))
                shown[:] = [*rest, *shown] if row is headings else [*shown, *rest]
            self._lines += map((" " * GAP).join, zip(*cells, strict=True))

    @staticmethod
    def _open_empty(widths: Sequence[int | None], width: int) -> list[int | None]:
        """A column without a character takes one cell all the same."""
        taken = sum(room or 0 for room in widths) + GAP * (len(widths) - 1)
        empty = sum(room == 0 for room in widths)
        if empty and taken + empty > width:
            raise NotPlain
        return [1 if room == 0 else room for room in widths]

    def text(self) -> str:
        return "".join(f"{line.rstrip()}\n" for line in self._lines)
