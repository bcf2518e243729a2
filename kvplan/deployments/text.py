"""A text whose characters know where they stand in the file.

Flags hide in folded scalars, in scripts inside strings, in JSON inside YAML. What a parser returns
has lost its lines, so a value is laid against its source again: word by word, because line breaks
and indentation are all that folding changes, and character by character where there are escapes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from kvplan.documents.document import Place

_WORD = re.compile(r"\S+")
_HEADER = re.compile(r"[|>][-+0-9]*[ \t]*(#.*)?$")
_WHITE = ("n", "t", " ", "")  # what stands behind a backslash that makes white space
_PREFIX = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]+)*")


class Mapped:
    """A text and, for some of its offsets, the place; between them the columns run on."""

    __slots__ = ("_offsets", "_places", "text")

    def __init__(self, text: str, marks: Sequence[tuple[int, int, int]]) -> None:
        self.text = text
        self._offsets = [mark[0] for mark in marks] or [0]
        self._places = [(mark[1], mark[2]) for mark in marks] or [(1, 1)]

    def place(self, offset: int = 0) -> Place:
        """Line and column of an offset."""
        index = max(bisect_right(self._offsets, offset) - 1, 0)
        line, column = self._places[index]
        return line, column + max(offset - self._offsets[index], 0)

    def marks(self) -> list[tuple[int, Place]]:
        """The offsets whose places are known."""
        return list(zip(self._offsets, self._places, strict=True))

    def part(self, begin: int, end: int | None = None) -> Mapped:
        """A stretch of it."""
        end = len(self.text) if end is None else end
        first = bisect_right(self._offsets, begin)
        last = bisect_right(self._offsets, max(end - 1, begin))
        marks = [(0, *self.place(begin))]
        marks += [(self._offsets[i] - begin, *self._places[i]) for i in range(first, last)]
        return Mapped(self.text[begin:end], marks)

    def joined(self, other: Mapped, between: str = " ") -> Mapped:
        """Two texts as one."""
        shift = len(self.text) + len(between)
        marks = [(offset, *place) for offset, place in self.marks()]
        marks += [(offset + shift, *place) for offset, place in other.marks()]
        return Mapped(self.text + between + other.text, marks)


def plain(text: str, line: int = 1, column: int = 1) -> Mapped:
    """A text as it stands in a file from some place on."""
    marks, offset = [(0, line, column)], 0
    for number, piece in enumerate(text.split("\n")):
        if number:
            marks.append((offset, line + number, 1))
        offset += len(piece) + 1
    return Mapped(text, marks)


def aligned(value: str, lines: Sequence[str], place: Place) -> Mapped:
    """A scalar laid against its source, which begins at a place."""
    row, column = place[0] - 1, place[1] - 1
    if row >= len(lines):
        return Mapped(value, [(0, *place)])
    source = lines[row]
    prefix = _PREFIX.match(source, column)
    column = prefix.end() if prefix else column
    quote = source[column : column + 1]
    if _HEADER.match(source, column):
        row, column, quote = row + 1, 0, ""
    elif quote in ("'", '"'):
        column += 1
    else:
        quote = ""
    escape = {"": "", "'": "'", '"': "\\"}[quote]
    one_line = "\n" not in value and not (escape and escape in value)
    if one_line and source.startswith(value, column):
        return Mapped(value, [(0, row + 1, column + 1)])
    marks: list[tuple[int, int, int]] = []
    for word in _WORD.finditer(value):
        found = _skip(lines, row, column, escape)
        if found is None:
            break
        row, column = found
        text = word.group()
        if lines[row].startswith(text, column) and not (escape and escape in text):
            marks.append((word.start(), row + 1, column + 1))
            column += len(text)
            continue
        found = _spell(text, word.start(), lines, (row, column), escape, marks)
        if found is None:
            break
        row, column = found
    return Mapped(value, marks or [(0, *place)])


def _skip(lines: Sequence[str], row: int, column: int, escape: str) -> Place | None:
    """The next place that is no white space, in double quotes none that is escaped either."""
    while row < len(lines):
        line = lines[row]
        while column < len(line):
            if line[column] in " \t\r":
                column += 1
            elif (
                escape == "\\"
                and line[column] == escape
                and line[column + 1 : column + 2] in _WHITE
            ):
                column += 2
            else:
                return row, column
        row, column = row + 1, 0
    return None


def _spell(
    word: str, offset: int, lines: Sequence[str], place: Place, escape: str,
    marks: list[tuple[int, int, int]],
) -> Place | None:  # fmt: skip
    """Lay one word against a source that escapes some of its characters."""
    row, column = place
    for index, char in enumerate(word):
        line = lines[row]
        if column >= len(line):
            return None
        here, following = line[column], line[column + 1 : column + 2]
        if escape and here == escape:
            width = {"x": 4, "u": 6, "U": 10}.get(following, 2) if escape == "\\" else 2
        elif here == char:
            width = 1
        else:
            return None
        marks.append((offset + index, row + 1, column + 1))
        column += width
    return row, column
