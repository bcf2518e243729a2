"""The compiled catalogue: every spec of `model_specs/` as one JSON file beside them.

Parsing 200 YAML files takes longer than everything else a command does, so their plain data is
compiled once (`make catalogue`) with a checksum of each file. A file whose checksum no longer
matches is parsed again when it is read, so an edited YAML takes effect at once and a stale index
costs time, never truth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from kvplan.spec.source import Document, decode, parse_yaml

INDEX_NAME = "index.json"
_SUFFIXES = (".yaml", ".yml")


class SpecFolder:
    """The spec files of one folder, possibly inside a zip archive, possibly with an index.

    Args:
        path: the folder.
        loader: the module loader that reads inside an archive, when the folder is in one.
        trusted: the folder is part of an installed package: its index is checked file by file as
            files are used, not as a whole.
    """

    def __init__(self, path: str, loader: Any = None, *, trusted: bool = False) -> None:
        self.path = path
        self._loader = loader
        self._trusted = trusted
        self._index = self._read_index()

    def documents(self, *, checked: bool = False) -> Iterator[Document]:
        """Every spec document, in order of file names; `checked` compares each with its file."""
        names = self._index.keys() if self._trusted and not checked else self._names()
        for name in sorted(names):
            if self._trusted and not checked:
                yield Document(self._index[name]["doc"], self._full(name), {})
            else:
                yield self.document(name)

    def document(self, name: str) -> Document:
        """One file's document: the compiled one while the file is what was compiled, else parsed.

        Raises:
            SpecError: the file is not a readable YAML document.
        """
        data = self._read(name)
        known = self._index.get(name)
        full = self._full(name)
        if known is not None and known["crc32"] == crc32(data):
            return Document(known["doc"], full, {})
        return parse_yaml(decode(data, full), full)

    def parsed(self, name: str) -> Document:
        """One file's document with the place of every value."""
        full = self._full(name)
        return parse_yaml(decode(self._read(name), full), full)

    def compile(self) -> str:
        """The text of a fresh index."""
        files = {}
        for name in sorted(self._names()):
            files[name] = {"crc32": crc32(self._read(name)), "doc": self.parsed(name).data}
        lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in files.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _names(self) -> list[str]:
        if self._loader is not None:
            return list(self._index)  # an archive lists no folders; it does not change either
        return [name for name in os.listdir(self.path) if name.endswith(_SUFFIXES)]

    def _full(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> bytes:
        if self._loader is not None:
            data: bytes = self._loader.get_data(self._full(name))
            return data
        with open(self._full(name), "rb", buffering=0) as file:
            return file.read()

    def _read_index(self) -> dict[str, Any]:
        try:
            index: dict[str, Any] = json.loads(self._read(INDEX_NAME))
        except (OSError, ValueError):
            return {}
        return index


def builtin_folder() -> SpecFolder:
    """The catalogue that comes with kvplan: in the package when installed, beside it in a clone."""
    import kvplan

    package = os.path.dirname(os.path.abspath(kvplan.__file__))
    inside = os.path.join(package, "model_specs")
    beside = os.path.join(os.path.dirname(package), "model_specs")
    if os.path.isdir(inside):
        return SpecFolder(inside, trusted=True)
    if os.path.isdir(beside):
        return SpecFolder(beside)
    loader = kvplan.__spec__.loader if kvplan.__spec__ else None
    for path in (inside, beside):
        try:
            loader.get_data(os.path.join(path, INDEX_NAME))  # type: ignore[union-attr]
        except (OSError, AttributeError):
            continue
        return SpecFolder(path, loader, trusted=True)
    raise FileNotFoundError(f"the model catalogue is missing: neither {inside} nor {beside}")


def main() -> None:
    """Write the index of the catalogue in this clone (`make catalogue`)."""
    folder = builtin_folder()
    text = folder.compile()
    with open(os.path.join(folder.path, INDEX_NAME), "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
