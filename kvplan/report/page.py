"""How a page becomes text: through rich on a terminal, as plain text in a pipe or a file.

Colour and bold type follow NO_COLOR and FORCE_COLOR, the width follows the terminal or COLUMNS.
Outside a terminal sentences are wrapped, but no table loses a column (`kvplan.report.tables`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

from kvplan.report.console import Console, NotPlain, PlainConsole

PIPE_WIDTH = 120
# With these rich may colour a pipe.
_COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS", "JUPYTER_LINES")


def open_console(*, to_file: bool) -> Console:
    """A console that collects what is printed on it, through rich."""
    from kvplan.report.colour import RichConsole

    terminal = _is_terminal(to_file=to_file)
    return RichConsole(_width(terminal=terminal), terminal=terminal)


def render(draw: Callable[[Console], None], *, to_file: bool) -> str:
    """The text of a page.

    Args:
        draw: writes the page; called again where plain text does not do.
        to_file: the page goes to a file, wherever standard output goes.
    """
    terminal = _is_terminal(to_file=to_file)
    if not terminal and not any(name in os.environ for name in _COLOURS):
        plain = PlainConsole(_width(terminal=False))
        try:
            draw(plain)
        except NotPlain:
            pass
        else:
            return plain.text()
    console = open_console(to_file=to_file)
    draw(console)
    return console.text()


def _is_terminal(*, to_file: bool) -> bool:
    return not to_file and sys.stdout is not None and sys.stdout.isatty()


def _width(*, terminal: bool) -> int:
    if terminal or "COLUMNS" in os.environ:
        return max(40, shutil.get_terminal_size().columns)
    return PIPE_WIDTH
