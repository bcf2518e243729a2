"""Lines of a log, read within bounds: any size, any terminal's colours, no binary file.

A log may have grown for months, or be no log at all. Lines are taken one by one, long ones
are cut, and reading ends at a bound; what an engine prints of its cache stands near a start, so a
bound on the whole costs nothing but logs that no one would paste.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO

from kvplan.errors import InputError

MAX_BYTES = 256 << 20
MAX_LINE = 1 << 15
MAX_LINES = 2_000_000
MAX_SECONDS = 30.0
_MAX_WIDE = 32 << 20

# Escape sequences of terminals: colours, cursor moves, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def read_lines(path: str) -> Iterator[str]:
    """Lines of a file, or of standard input for `-`, without colours and line ends.

    Raises:
        InputError: it cannot be read, is empty, is binary, or exceeds a bound.
    """
    if path == "-":
        if sys.stdin is None:
            raise InputError("is closed", where="<stdin>")
        try:
            yield from lines_of(sys.stdin.buffer, "<stdin>")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where="<stdin>") from None
        return
    place = os.path.expanduser(path)
    try:
        mode = os.stat(place).st_mode
        if stat.S_ISDIR(mode):
            raise InputError("is a folder, not a log", where=path)
        with open(place, "rb") as file:
            yield from lines_of(file, path)
    except (OSError, ValueError) as error:  # a name with a zero character is a ValueError
        said = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {said}", where=path) from None


def lines_of(stream: BinaryIO, name: str) -> Iterator[str]:
    """Lines of an open stream; see `read_lines`.

    A progress bar rewrites its line with carriage returns: each piece is a line of its own, and
    what is empty between two of them is none.

    Raises:
        InputError: it is empty, is binary, or exceeds a bound.
    """
    bounds = _Bounds(name)
    number = 0
    for number, line in enumerate(_lines(stream, bounds), 1):
        if "\x00" in line:
            raise InputError("is not text: it holds zero bytes", where=f"{name}:{number}")
        pieces = [piece for piece in line.split("\r") if piece] if "\r" in line else [line]
        bounds.count(len(pieces) or 1)
        for piece in pieces or ("",):
            yield _clean(piece)
    if number == 0:
        raise InputError("is empty", where=name)


class _Bounds:
    """What reading may cost, and the error when it costs more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bytes = self._lines = 0
        self._end = time.monotonic() + MAX_SECONDS

    def take(self, count: int, most: int | None = None) -> None:
        most = MAX_BYTES if most is None else most
        self._bytes += count
        if self._bytes > most:
            self._refuse(f"is larger than {most >> 20} MiB")

    def count(self, lines: int) -> None:
        self._lines += lines
        if self._lines > MAX_LINES:
            self._refuse(f"has more than {MAX_LINES:,} lines")
        if not self._lines % 1024 and time.monotonic() > self._end:
            self._refuse(f"took longer than {MAX_SECONDS:.0f} s to read")

    def _refuse(self, why: str) -> None:
        hint = "pass the part around the engine's start, for example with grep or head"
        raise InputError(why, where=self._name, hint=hint)


def _lines(stream: BinaryIO, bounds: _Bounds) -> Iterator[str]:
    """Lines as they stand, those that are too long in pieces."""
    raw = stream.readline(MAX_LINE)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):  # PowerShell redirects in UTF-16
        yield from _wide(raw, stream, bounds)
        return
    while raw:
        bounds.take(len(raw))
        yield raw.decode("utf-8", "replace").rstrip("\n")
        raw = stream.readline(MAX_LINE)


def _wide(first: bytes, stream: BinaryIO, bounds: _Bounds) -> Iterator[str]:
    """Lines of UTF-16, a piece of the file at a time."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    rest, raw = "", first
    while raw:
        bounds.take(len(raw), _MAX_WIDE)
        *whole, rest = (rest + decoder.decode(raw)).split("\n")
        yield from (line[:MAX_LINE] for line in whole)
        if len(rest) > MAX_LINE:
            yield rest[:MAX_LINE]
            rest = ""
        raw = stream.read(MAX_LINE)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest


def _clean(line: str) -> str:
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    return line.lstrip("\ufeff")
