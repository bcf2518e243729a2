"""A console that renders to text: rich on a terminal, plain in a pipe or a file.

Colour and bold type follow NO_COLOR and FORCE_COLOR, the width follows the terminal or COLUMNS.
Outside a terminal sentences are wrapped, but no table loses a column (`kvplan.report.tables`).
"""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

from kvplan.printable import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PIPE_WIDTH = 120


class _Sheet(StringIO):
    """Collected text, which knows whether a terminal will show it."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


def open_console(*, to_file: bool) -> Console:
    """A console that collects what is printed on it."""
    from rich.console import Console

    class Careful(Console):
        """Rich's own colours pass; what a text out of a file holds of them is written out."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

    terminal = not to_file and sys.stdout is not None and sys.stdout.isatty()
    if terminal or "COLUMNS" in os.environ:
        width = max(40, shutil.get_terminal_size().columns)
    else:
        width = PIPE_WIDTH
    sheet = _Sheet()
    sheet.terminal = terminal
    return Careful(
        file=sheet,
        width=width,
        # None lets rich look at FORCE_COLOR.
        force_terminal=True if terminal else None,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def text_of(console: Console) -> str:
    """What was printed, without the blanks that pad lines."""
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)
