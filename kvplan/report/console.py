"""A console that renders to text: rich on a terminal, plain and wide enough in a pipe or a file.

Colour follows NO_COLOR and FORCE_COLOR, the width follows the terminal or COLUMNS. Tables have no
lines between cells, so they read well where line characters are missing and paste well into text.
"""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 120
BAR_WIDTH = 20


def open_console(*, to_file: bool) -> Console:
    """A console that collects what is printed on it."""
    from rich.console import Console

    terminal = not to_file and sys.stdout.isatty()
    if terminal or "COLUMNS" in os.environ:
        width = max(40, shutil.get_terminal_size().columns)
    else:
        width = PIPE_WIDTH
    return Console(
        file=StringIO(),
        width=width,
        # None lets rich look at FORCE_COLOR and TERM; the collecting stream itself is no terminal.
        force_terminal=True if terminal else None,
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


def new_table(*columns: tuple[str, str], **options: Any) -> Table:
    """A table without lines; each column is (heading, "left" or "right")."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for heading, justify in columns:
        table.add_column(heading, justify="left" if justify == "left" else "right", overflow="fold")
    return table


def bar(share: float, console: Console) -> str:
    """A bar for a share of 1, in characters the terminal's encoding has."""
    unicode = (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf")
    filled = round(share * BAR_WIDTH)
    return ("█" if unicode else "#") * max(filled, 1 if share > 0 else 0)
