"""A command line cut into words as a shell cuts it, each with the place where it begins.

Quotes, backslashes and lines joined by a backslash are read as by a POSIX shell; nothing is
expanded. Lines and columns count from 1, so that a word of a deployment file can be named as
`file:line:column`.
"""

from __future__ import annotations

from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple

_BLANK = " \t\r\n"
_ESCAPED = '"\\$`\n'  # what a backslash takes the meaning from between double quotes


class Word(NamedTuple):
    """One word.

    Attributes:
        text: without its quotes.
        line, column: where it begins.
        name: the file it stands in; "" for a line that was typed.
    """

    text: str
    line: int = 1
    column: int = 1
    name: str = ""

    @property
    def where(self) -> str | None:
        """`file:line:column`, None for a line that was typed."""
        return f"{self.name}:{self.line}:{self.column}" if self.name else None


def split_words(text: str, *, name: str = "", line: int = 1, column: int = 1) -> tuple[Word, ...]:
    """The words of a command line.

    Args:
        text: the line; it may have several.
        name: the file it stands in.
        line, column: where its first character stands.

    Raises:
        UsageError: a quote that is not closed, or a backslash at the end.
    """
    found: list[Word] = []
    parts: list[str] | None = None  # of the word that is being read
    start = (line, column)
    at, end = 0, len(text)
    begin = 0  # of the current line
    shift = column - 1

    def here() -> tuple[int, int]:
        return line, at - begin + 1 + shift

    while at < end:
        char = text[at]
        if char in _BLANK:
            if parts is not None:
                found.append(Word("".join(parts), *start, name))
                parts = None
            if char == "\n":
                line, begin, shift = line + 1, at + 1, 0
            at += 1
            continue
        if char == "\\" and text[at + 1 : at + 2] == "\n":
            line, begin, shift = line + 1, at + 2, 0
            at += 2
            continue
        if parts is None:
            parts, start = [], here()
        if char == "\\":
            if at + 1 == end:
                raise _uncut(text, "a backslash ends it", Word("", *here(), name))
            parts.append(text[at + 1])
            at += 2
        elif char in "'\"":
            opened = Word("", *here(), name)
            at += 1
            while at < end and text[at] != char:
                if text[at] == "\n":
                    line, begin, shift = line + 1, at + 1, 0
                if char == '"' and text[at] == "\\" and text[at + 1 : at + 2] in tuple(_ESCAPED):
                    at += 1
                    if text[at] == "\n":
                        line, begin, shift = line + 1, at + 1, 0
                        at += 1
                        continue
                parts.append(text[at])
                at += 1
            if at >= end:
                raise _uncut(text, f"the quote {char} is not closed", opened)
            at += 1
        else:
            parts.append(char)
            at += 1
    if parts is not None:
        found.append(Word("".join(parts), *start, name))
    return tuple(found)


def _uncut(text: str, why: str, word: Word) -> UsageError:
    return UsageError(f"arguments {text!r} cannot be split: {why}", where=word.where)
