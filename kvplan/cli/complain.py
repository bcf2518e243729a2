"""Where a command says what went wrong: standard error, which may be closed or full."""

from __future__ import annotations

import os
import sys

from kvplan.printable import visible


def complain(text: str) -> None:
    """Print a text on standard error; that it cannot be said changes no exit code."""
    if sys.stderr is None:  # print() would take standard output instead
        return
    try:
        print(visible(text), file=sys.stderr, flush=True)
    except OSError:
        # What could not be written must not be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
