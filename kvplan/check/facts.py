"""What every file of a check says about the engines it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from kvplan.check.paths import STDIN
from kvplan.deployments.facts import Reading
from kvplan.deployments.read import read_file
from kvplan.documents.files import decode, read_bytes
from kvplan.documents.policy import DEPLOYMENT
from kvplan.errors import InputError
from kvplan.record import Record


class FileFacts(Record):
    """One file and what it holds.

    Attributes:
        path: as it was given, relative where it could be.
        reading: its engines, and what could not be read.
    """

    path: str
    reading: Reading


def read_files(
    paths: Iterable[str],
    *,
    stdin_name: str = "stdin.yaml",
    progress: Callable[[int], None] = lambda done: None,
) -> list[FileFacts]:
    """Read files one after another; one that cannot be read hides no other.

    Args:
        paths: the files; `-` is standard input.
        stdin_name: what standard input is called, and read as.
        progress: told how many are done.
    """
    found = []
    for number, path in enumerate(paths, 1):
        name = stdin_name if path == STDIN else _shown(path)
        try:
            data = _stdin(name) if path == STDIN else read_bytes(path, DEPLOYMENT)
            reading = read_file(decode(data, name, DEPLOYMENT), name)
        except InputError as error:
            reading = Reading(errors=(str(error),))
        found.append(FileFacts(path=name, reading=reading))
        progress(number)
    return found


def _stdin(name: str) -> bytes:
    """Standard input, within the size that a file may have: it may never end."""
    limit = DEPLOYMENT.max_bytes
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is longer than {limit:,} bytes", where=name)
    return data


def _shown(path: str) -> str:
    """A path without the folder that the command runs in."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative.replace(os.sep, "/")
