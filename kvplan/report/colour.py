"""Pages through rich: a terminal with its colours, and whatever plain text does not lay out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvplan.printable import visible
from kvplan.report.console import GAP, Column


class _Sheet(StringIO):
    """Collected text, which knows whether a terminal will show it."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


class _Careful(Console):
    """Rich's own colours pass; what a text out of a file holds of them is written out."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


class RichConsole:
    """A console that collects what is printed on it."""

    def __init__(self, width: int, *, terminal: bool) -> None:
        self.terminal = terminal
        self._sheet = _Sheet()
        self._sheet.terminal = terminal
        self._console = _Careful(
            file=self._sheet,
            width=width,
            # None lets rich look at FORCE_COLOR.
            force_terminal=True if terminal else None,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self.width = self._console.width

    def print(self, text: str = "", *, style: str = "") -> None:
        self._console.print(text, style=style)

    def cells(self, text: str) -> int:
        return cell_len(text)

    def wrap(self, text: str, width: int) -> list[str]:
        return [line.plain for line in Text(text).wrap(self._console, width, overflow="fold")]

    def table(
        self,
        columns: Sequence[Column],
        widths: Sequence[int | None],
        rows: Sequence[Sequence[str]],
        *,
        width: int,
    ) -> None:
        # Gaps are columns: what rich adds as padding behind the last one differs by its version.
        table = Table(box=None, pad_edge=False, header_style="bold", padding=0)
        for place, (column, room) in enumerate(zip(columns, widths, strict=True)):
            if place:
                table.add_column(width=GAP)
            table.add_column(column.heading, justify=column.justify, overflow="fold", width=room)
        for first, *others in rows:
            table.add_row(first, *(text for cell in others for text in ("", cell)))
        before, self._console.width = self._console.width, width
        self._console.print(table)
        self._console.width = before

    def text(self) -> str:
        """What was printed, without the blanks that pad lines."""
        lines = self._sheet.getvalue().split("\n")
        return "\n".join(line.rstrip() for line in lines)
