"""Texts out of files, made safe to show: a terminal obeys some characters instead of drawing them.

Escape sequences can hide, forge or rewrite what stands beside them, and so can marks that turn the
direction of writing. Each is shown as Python writes it, `\\x1b`; blanks and line ends stay.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with every character that is not drawn written out."""
    if text.isprintable():
        return text
    return "".join(char if _is_drawn(char) else _escaped(char) for char in text)


def _is_drawn(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or (char > "\x9f" and char.isspace())


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
