"""Chooses the format and the place of a report; files are written whole or not at all."""

from __future__ import annotations

import os
import sys
from typing import Any

from kvplan.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown")


def emit(command: str, results: Any, values: dict[str, Any], **options: Any) -> int:
    """Print the report of a command and return exit code 0.

    Args:
        command: whose report; each format's module has a function of that name.
        results: what the command found.
        values: the command line (`format`, `json`, `output`).
        options: passed on to the format's function.

    Raises:
        UsageError: an unknown format, or one that this command does not have, or a file that
            cannot be written.
    """
    name = "json" if values["json"] else values["format"].strip().lower()
    if name not in FORMATS:
        raise UsageError(
            f"--format {values['format']!r} is not a format", hint="one of " + ", ".join(FORMATS)
        )
    from importlib import import_module

    module = import_module(f"kvplan.report.as_{name}")
    render = getattr(module, command, None)
    if render is None:
        raise UsageError(f"{command} has no {name} report")
    path = values["output"]
    return deliver(render(results, to_file=path is not None, **options), path)


def deliver(text: str, path: str | None) -> int:
    """Print a report, or write it to a file; return exit code 0.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None:
        sys.stdout.write(text)
    else:
        _write_file(path, text)
    return 0


def _write_file(path: str, text: str) -> None:
    """Write through a temporary file beside the target, so that nothing is ever half-written."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from None
