"""The last resort: an error that nobody foresaw is told in three lines, not as a traceback.

It is a mistake in kvplan, whatever was typed, and never a negative answer: exit code 2. What to
report is on the page; `KVPLAN_DEBUG=1` shows the whole trace for it.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from kvplan.cli.complain import complain

DEBUG = "KVPLAN_DEBUG"
_LONGEST = 200


def unforeseen(error: BaseException) -> int:
    """Say what happened; return the exit code."""
    if os.environ.get(DEBUG):
        complain("".join(traceback.format_exception(error)).rstrip())
        return 2
    if isinstance(error, MemoryError):
        complain("kvplan: this process ran out of memory\nhint: ask for less at once")
        return 2
    said = str(error).partition("\n")[0][:_LONGEST]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    complain(
        f"kvplan: a mistake in kvplan, not in what was asked: {what} ({_place(error)})\n"
        f"hint: please report it with this line and the command; {DEBUG}=1 shows the whole trace"
    )
    return 2


def _place(error: BaseException) -> str:
    """The innermost line of kvplan that the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}kvplan{os.sep}" in frame.filename]
    if not own:
        return "outside of kvplan"
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"
