"""Chooses the format and the place of a report; files are written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from kvplan.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown")
_MORE = {"verify": ("junit",)}  # formats that one command alone has
_SHORT = {"md": "markdown"}
_SUFFIXES = {
    ".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".xml": "junit",
}  # fmt: skip


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
        name = _SUFFIXES.get(suffix, "table")
        return name if name in formats else "table"
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
    try:
        target = os.path.realpath(path)
    except OSError as error:  # a working folder that is gone
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from None
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
