"""The compiled catalogue: the plain data of every spec in one file under one checksum.

Parsing 300 YAML files takes longer than everything else a command does, so their data is kept in
one file that is read whole. Its first line holds a checksum over all the rest: an index that is
damaged in any way, or written by another version of kvplan, is none, and the YAML is read instead.
It costs time and never truth. A line per file follows, and its data, which is JSON, is parsed only
when somebody asks for it.

    kvplan-index 3 1234567890
    llama3-8b.yaml <tab> bytes <tab> time of writing in ns <tab> crc32 <tab> data
"""

from __future__ import annotations

import json
import os
from typing import Any
from zlib import crc32

from kvplan.named_tuple import NamedTuple

INDEX_NAME = "index.tsv"


class Compiled(NamedTuple):
    """The data of one spec file as JSON, and the file that it was made from."""

    size: int
    modified: int
    crc32: int
    text: str

    @property
    def data(self) -> Any:
        """The data."""
        return json.loads(self.text)


def as_written(text: str) -> str:
    """A text as it stands in the lower case of a row's data."""
    return json.dumps(text.lower(), ensure_ascii=False)[1:-1]


def compiled(size: int, modified: int, checksum: int, data: Any) -> Compiled:
    """A file's data, made ready to be kept."""
    return Compiled(size, modified, checksum, json.dumps(data, ensure_ascii=False))


def dumps(files: dict[str, Compiled]) -> str:
    """The text of an index."""
    rows = (
        "\t".join((name, *map(str, files[name]))) + "\n"
        for name in sorted(files)
        if name.isprintable()  # another one is parsed every time
    )
    body = "".join(rows)
    return f"{_head(body.encode())}\n{body}"


def loads(text: bytes) -> dict[str, Compiled] | None:
    """The files of an index, None if it is not whole."""
    head, _, body = text.partition(b"\n")
    if head != _head(body).encode():
        return None
    rows = (line.split("\t", 4) for line in body.decode().split("\n")[:-1])
    return {
        name: Compiled(int(size), int(modified), int(checksum), data)
        for name, size, modified, checksum, data in rows
    }


def _head(body: bytes) -> str:
    return f"kvplan-index 3 {crc32(body)}"


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
