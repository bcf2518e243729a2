"""The compiled catalogue: the plain data of every spec in one JSON file under one checksum.

Parsing 300 YAML files takes longer than everything else a command does, so their data is kept in
one file that is read whole. Its first line holds a checksum over all the rest: an index that is
damaged in any way, or written by another version of kvplan, is none, and the YAML is read instead.
It costs time and never truth.

    {"format": 2, "crc32": 1234567890,
    "files": {"llama3-8b.yaml": [bytes, time of writing in ns, crc32, data], ...}}
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple
from zlib import crc32

INDEX_NAME = "index.json"


class Compiled(NamedTuple):
    """The data of one spec file, and the file that it was made from."""

    size: int
    modified: int
    crc32: int
    data: Any


def dumps(files: dict[str, Compiled]) -> str:
    """The text of an index."""
    rows = (f"{json.dumps(name)}: {json.dumps(files[name])}" for name in sorted(files))
    body = '"files": {\n' + ",\n".join(rows) + "\n}}\n"
    return f"{_head(body.encode())}\n{body}"


def loads(text: bytes) -> dict[str, Compiled] | None:
    """The files of an index, None if it is not whole."""
    head, _, body = text.partition(b"\n")
    if head != _head(body).encode():
        return None
    return {name: Compiled(*row) for name, row in json.loads(text)["files"].items()}


def _head(body: bytes) -> str:
    return f'{{"format": 2, "crc32": {crc32(body)},'


def write(path: str, files: dict[str, Compiled]) -> None:
    """Write an index at once or not at all, as other commands may be reading it.

    Raises:
        OSError: the folder cannot be written.
    """
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(dumps(files))
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise
