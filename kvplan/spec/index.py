"""The compiled catalogue: every spec of `model_specs/` as one JSON file beside them.

Parsing 200 YAML files takes longer than everything else a command does, so their plain data is
compiled once (`make catalogue`), one line per file, with the file's size and checksum. A line is
parsed only when it holds the name that is looked for. A file that no longer is what was compiled is
parsed again, so an edited YAML takes effect at once and a stale index costs time, never truth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from zlib import crc32

from kvplan.documents.document import Document
from kvplan.documents.files import decode, read_bytes
from kvplan.documents.from_yaml import read_yaml
from kvplan.documents.policy import SPEC
from kvplan.errors import SpecError

INDEX_NAME = "index.json"
_SUFFIXES = (".yaml", ".yml")


class SpecFolder:
    """The spec files of one folder, possibly inside a zip archive, possibly with an index.

    Args:
        path: the folder.
        loader: the module loader that reads inside an archive, when the folder is in one.
        installed: the folder is part of an installed package. Its files do not come, go or change
            by themselves, so only those that are used are compared with the index.
        indexed: the index is kvplan's own. In a folder of the user's nothing vouches for a file of
            that name, so it is not opened.
    """

    def __init__(
        self, path: str, loader: Any = None, *, installed: bool = False, indexed: bool = True
    ) -> None:
        self.path = path
        self._loader = loader
        self._installed = installed or loader is not None
        self._lines = self._read_index() if indexed else {}
        self._compared: dict[str, tuple[int, bool]] = {}  # name -> (modified, is as compiled)

    def documents(self, holding: str = "") -> Iterator[Document]:
        """Every spec document, in order of file names.

        Args:
            holding: leave out documents that surely do not hold this lower-case text.
        """
        simple = holding.isascii() and holding.isprintable() and not set(holding) & set('"\\')
        changed = self._changed()
        for name in sorted(self._lines.keys() - changed.keys() if changed else self._lines):
            line = self._lines[name]
            if not simple or holding in line.lower():
                yield Document(data=json.loads(line)["doc"], name=self._full(name))
        for name in sorted(name for name, exists in changed.items() if exists):
            yield self.document(name)

    def document(self, name: str) -> Document:
        """One file's document: the compiled one while the file is what was compiled, else parsed.

        Raises:
            SpecError: the file is not a readable YAML document.
        """
        data = self._read(name)
        full = self._full(name)
        if name in self._lines:
            known = json.loads(self._lines[name])
            if known["crc32"] == crc32(data):
                return Document(data=known["doc"], name=full)
        return _parsed(data, full)

    def compile(self) -> str:
        """The text of a fresh index: a JSON object, one line per file.

        Raises:
            SpecError: a file that is no spec.
        """
        from kvplan.spec.reader import read_spec

        lines = []
        for name in sorted(self._stats()):
            data, full = self._read(name), self._full(name)
            document = _parsed(data, full)
            read_spec(document)  # places are not compiled, so neither is what would need them
            entry = {"size": len(data), "crc32": crc32(data), "doc": document.data}
            lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _changed(self) -> dict[str, bool]:
        """Files that cannot be taken from the index: name -> whether the file is there.

        New, gone, or not what was compiled. A checkout writes files in any order, so one that is
        younger than the index is read and compared, once.
        """
        if self._installed and self._lines:
            return {}
        stats = self._stats()
        try:
            compiled = os.stat(self._full(INDEX_NAME)).st_mtime_ns
        except OSError:
            compiled = 0
        changed = dict.fromkeys(self._lines.keys() - stats.keys(), False)
        for name, found in stats.items():
            line = self._lines.get(name)
            same = line is not None and line.startswith(f'{{"size": {found.st_size},')
            if same and found.st_mtime_ns > compiled:
                same = self._is_as_compiled(name, found.st_mtime_ns)
            if not same:
                changed[name] = True
        return changed

    def _is_as_compiled(self, name: str, modified: int) -> bool:
        """Whether a file's checksum is the index's; remembered until the file is written again."""
        known = self._compared.get(name)
        if known is None or known[0] != modified:
            try:
                with open(self._full(name), "rb", buffering=0) as file:
                    checksum = crc32(file.read(SPEC.max_bytes))
            except OSError:
                return False  # whoever reads it says why it cannot be read
            same = f'"crc32": {checksum},' in self._lines[name][:60]
            known = self._compared[name] = (modified, same)
        return known[1]

    def _stats(self) -> dict[str, os.stat_result]:
        """The spec files of the folder; hidden ones are editors' own."""
        try:
            with os.scandir(self.path) as found:
                return {
                    item.name: item.stat()
                    for item in found
                    if item.name.endswith(_SUFFIXES) and not item.name.startswith(".")
                }
        except OSError as error:
            where = error.filename or self.path
            raise SpecError(f"cannot be read: {error.strerror}", where=where) from None

    def _full(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> bytes:
        if self._loader is not None:
            data: bytes = self._loader.get_data(self._full(name))
            return data
        return read_bytes(self._full(name), SPEC)

    def _read_index(self) -> dict[str, str]:
        """File name -> the JSON text of its entry; {} without an index that can be read."""
        try:
            if self._loader is not None:
                data = self._read(INDEX_NAME)
            else:
                with open(self._full(INDEX_NAME), "rb", buffering=0) as file:
                    data = file.read()
            lines = data.decode("utf-8").split("\n")
        except (OSError, ValueError):
            return {}
        found = {}
        for line in lines:
            name, colon, entry = line.rstrip(",").partition('": ')
            if colon and entry.startswith('{"size"') and entry.endswith("}"):
                found[name.removeprefix('"')] = entry
        return found


def _parsed(data: bytes, name: str) -> Document:
    return read_yaml(decode(data, name, SPEC), name)


@cache
def builtin_folder() -> SpecFolder:
    """The catalogue that comes with kvplan: in the package when installed, beside it in a clone."""
    import kvplan

    package = os.path.dirname(os.path.abspath(kvplan.__file__))
    inside = os.path.join(package, "model_specs")
    beside = os.path.join(os.path.dirname(package), "model_specs")
    if os.path.isdir(inside):
        return SpecFolder(inside, installed=True)
    if os.path.isdir(beside):
        return SpecFolder(beside)
    loader = kvplan.__spec__.loader if kvplan.__spec__ else None
    for path in (inside, beside):
        try:
            loader.get_data(os.path.join(path, INDEX_NAME))  # type: ignore[union-attr]
        except (OSError, AttributeError):
            continue
        return SpecFolder(path, loader, installed=True)
    raise FileNotFoundError(f"the model catalogue is missing: neither {inside} nor {beside}")


def main() -> None:
    """Write the index of the catalogue in this clone (`make catalogue`)."""
    folder = builtin_folder()
    text = folder.compile()
    with open(os.path.join(folder.path, INDEX_NAME), "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
