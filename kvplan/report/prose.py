"""Sentences on a page: wrapped lines hang under their own text, not under the label before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.notice import Notice
    from kvplan.report.console import Console

_LEAST = 20  # cells of text beside a label; with fewer the lines are not indented


def hanging(console: Console, label: str, text: str, *, style: str = "") -> None:
    """Print `label` and `text`; what does not fit the line goes on where the text began."""
    width = console.cells(label)
    if console.width - width < _LEAST:
        console.print(label + text, style=style)
        return
    for line in console.wrap(text, console.width - width):
        console.print(label + line, style=style)
        label = " " * width


def warnings(console: Console, notices: Iterable[Notice]) -> None:
    """Print each warning once, under the rest of a page."""
    for notice in dict.fromkeys(notices):
        console.print()
        hanging(console, "warning: ", f"{notice.message} [{notice.id}]", style="yellow")
