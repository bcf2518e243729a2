"""Lines of a log, read within bounds: any size, any terminal's colours, no binary file.

A log may have grown for months, or be no log at all. Lines are taken one by one, long ones
are cut, and reading ends at a bound; what an engine prints of its cache stands near a start, so a
bound on the whole costs nothing but logs that no one would paste.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import BinaryIO

from kvplan.errors import InputError

MAX_BYTES = 256 << 20
MAX_LINE = 1 << 15
_MAX_WIDE = 32 << 20
_SNIFF = 4096

# Escape sequences of terminals: colours, cursor moves, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def read_lines(path: str) -> Iterator[str]:
    """Lines of a file, or of standard input for `-`, without colours and line ends.

    Raises:
        InputError: it cannot be read, is empty, is binary, or is larger than 256 MiB.
    """
    if path == "-":
        yield from lines_of(sys.stdin.buffer, "<stdin>")
        return
    place = os.path.expanduser(path)
    try:
        mode = os.stat(place).st_mode
        if stat.S_ISDIR(mode):
            raise InputError("is a folder, not a log", where=path)
        with open(place, "rb") as file:
            yield from lines_of(file, path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None


def lines_of(stream: BinaryIO, name: str) -> Iterator[str]:
    """Lines of an open stream; see `read_lines`.

    Raises:
        InputError: it is empty, is binary, or is larger than 256 MiB.
    """
    taken, number, encoding = 0, 0, "utf-8"
    while True:
        raw = stream.readline(MAX_LINE)
        if not raw:
            break
        if number == 0:
            encoding = _encoding(raw, name)
            if encoding != "utf-8":
                rest = raw + stream.read(_MAX_WIDE)
                yield from (_clean(line) for line in rest.decode(encoding, "replace").splitlines())
                return
        number += 1
        taken += len(raw)
        if taken > MAX_BYTES:
            raise InputError(
                f"is larger than {MAX_BYTES >> 20} MiB",
                where=name,
                hint="pass the part around the engine's start, for example with grep or tail",
            )
        if b"\x00" in raw:
            raise InputError("is not text: it holds zero bytes", where=f"{name}:{number}")
        # A progress bar rewrites its line with carriage returns: each piece is a line of its own.
        for piece in raw.decode("utf-8", "replace").split("\r"):
            yield _clean(piece)
    if number == 0:
        raise InputError("is empty", where=name)


def _encoding(first: bytes, name: str) -> str:
    """UTF-8, or the UTF-16 that PowerShell writes when it redirects."""
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\x00" in first[:_SNIFF]:
        raise InputError("is not text: it holds zero bytes", where=f"{name}:1")
    return "utf-8"


def _clean(line: str) -> str:
    return _ESCAPES.sub("", line).rstrip("\n\r").lstrip("﻿")
