"""Chooses the format and the place of a report; standard output gets all of it or an error."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from kvplan.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown")
_PIECE = 4096  # what a pipe that is ready takes in one go (PIPE_BUF)
_READER_SECONDS = 60.0  # for a reader that is asked to take more
_MORE = {"verify": ("junit",)}  # formats that one command alone has
_SHORT = {"md": "markdown"}
_SUFFIXES = {
    ".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".xml": "junit",
}  # fmt: skip


_TEXT = ("", ".txt", ".log", ".out")


def _endings(formats: tuple[str, ...]) -> list[str]:
    return [*(suffix for suffix, name in _SUFFIXES.items() if name in formats), ".txt"]


def emit(command: str, results: Any, values: dict[str, Any], **options: Any) -> int:
    """Print the report of a command and return exit code 0.

    Args:
        command: whose report.
        results: what the command found.
        values: the command line (`format`, `json`, `output`).
        options: passed on to the format's function.

    Raises:
        UsageError: as `renderer`, or a file that cannot be written.
    """
    render = renderer(command, values)
    path = None if values["output"] == "-" else values["output"]
    return deliver(render(results, to_file=path is not None, **options), path)


def renderer(command: str, values: dict[str, Any]) -> Callable[..., str]:
    """The function that renders a command's results in the format asked for.

    A command that takes long calls it first, so that a slip in the format costs nothing.

    Raises:
        UsageError: a format that this command does not have.
    """
    name = _format(command, values)
    from importlib import import_module

    module = import_module(f"kvplan.report.as_{name}")
    if name not in ("csv", "markdown"):
        render: Callable[..., str] = getattr(module, command)
        return render
    from kvplan.report.rows import rows

    def render_rows(results: Any, *, to_file: bool, **options: Any) -> str:
        text: str = module.dump(rows(command, results, **options))
        return text

    return render_rows


def _format(command: str, values: dict[str, Any]) -> str:
    """The format that the options ask for, else the one that the file's name ends in."""
    formats = (*FORMATS, *_MORE.get(command, ()))
    given = values["format"]
    if given is None:
        if values["json"]:
            return "json"
        suffix = os.path.splitext(values["output"] or "")[1].lower()
        name = "table" if suffix in _TEXT else _SUFFIXES.get(suffix, "")
        if name in formats:
            return name
        endings = ", ".join(_endings(formats))
        raise UsageError(
            f"--output {values['output']!r}: {suffix} is no format of this report",
            hint=f"--format says which it is; by its ending a file is {endings}",
        )
    name = given.strip().lower()
    name = _SHORT.get(name, name)
    if values["json"]:
        if name not in ("table", "json"):
            raise UsageError(f"--json contradicts --format {given}")
        name = "json"
    if name not in formats:
        raise UsageError(
            f"--format {given!r} is not a format of this report",
            hint="one of " + ", ".join(formats),
        )
    return name


def deliver(text: str, path: str | None) -> int:
    """Print a report (`-` too), or write it to a file; return exit code 0.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None or path == "-":
        _print(text)
    else:
        from kvplan.report.whole_file import write_file

        write_file(path, text)
    return 0


def _print(text: str) -> None:
    """Print at once and whole, so that a full disk is an error of this command."""
    if sys.stdout is None:
        raise UsageError("standard output is closed", hint="--output FILE writes a file")
    try:
        sys.stdout.flush()
        number = _descriptor()
        if number is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            _write_all(number, text.encode(sys.stdout.encoding or "utf-8", "replace"))
    except BrokenPipeError:
        raise
    except OSError as error:
        # What could not be written must not be tried again when the interpreter ends.
        number = _descriptor()
        if number is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        raise UsageError(f"standard output cannot be written: {error.strerror}") from None


def _descriptor() -> int | None:
    """The file behind standard output; None where something stands in for it, and on Windows."""
    if os.name == "nt":  # line ends and consoles are the stream's business there
        return None
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return None


def _write_all(number: int, data: bytes) -> None:
    """Write every byte: a stream without a buffer forgets what did not fit."""
    mode = os.fstat(number).st_mode
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    rest = memoryview(data)
    while rest:
        if waits:
            _wait_for_reader(number)
        rest = rest[os.write(number, rest[:_PIECE]) :]


def _wait_for_reader(number: int) -> None:
    """A pipe may be set not to wait for its reader; then this does."""
    import select  # a library of its own, which a file or a terminal does not need

    _, ready, _ = select.select([], [number], [], _READER_SECONDS)
    if not ready:
        raise OSError(errno.ETIMEDOUT, "its reader takes nothing")
