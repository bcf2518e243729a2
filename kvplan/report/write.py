"""Chooses the format and the place of a report; files are written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from kvplan.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown", "junit")


def emit(command: str, results: Any, values: dict[str, Any], **options: Any) -> int:
    """Print the report of a command and return exit code 0.

    Args:
        command: whose report; each format's module has a function of that name.
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
        UsageError: an unknown format, or one that this command does not have.
    """
    name = values["format"].strip().lower()
    if values["json"]:
        if name not in ("table", "json"):
            raise UsageError(f"--json contradicts --format {values['format']}")
        name = "json"
    if name not in FORMATS:
        raise UsageError(
            f"--format {values['format']!r} is not a format", hint="one of " + ", ".join(FORMATS)
        )
    from importlib import import_module

    module = import_module(f"kvplan.report.as_{name}")
    render: Callable[..., str] | None = getattr(module, command, None)
    if render is None:
        raise UsageError(f"{command} has no {name} report")
    return render


def deliver(text: str, path: str | None) -> int:
    """Print a report (`-` too), or write it to a file; return exit code 0.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None or path == "-":
        _print(text)
    else:
        _write_file(path, text)
    return 0


def _print(text: str) -> None:
    """Print at once, so that a full disk is an error of this command."""
    if sys.stdout is None:
        raise UsageError("standard output is closed", hint="--output FILE writes a file")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What could not be written must not be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UsageError(f"standard output cannot be written: {error.strerror}") from None


def _write_file(path: str, text: str) -> None:
    """Write through a temporary file beside the target, so that nothing is ever half-written.

    What a link points at is replaced, not the link; a device or a pipe is written directly.
    """
    target = os.path.realpath(path)
    direct = os.path.exists(target) and not os.path.isfile(target)
    written = target if direct else f"{target}.{os.getpid()}.tmp"
    try:
        with open(written, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        if not direct:
            os.replace(written, target)
    except OSError as error:
        if not direct and os.path.exists(written):
            os.unlink(written)
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from None
