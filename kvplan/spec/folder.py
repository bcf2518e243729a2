"""A folder of specs: the catalogue, installed or in a clone, or one of the user's own.

Files that are as they were when they were compiled are taken from the index; the rest is parsed.
In a clone the index follows by itself: a command that had to parse something writes it again, as
Python does with its byte code, so an edited YAML takes effect at once and costs its time once.
A file that cannot be read stands in nobody's way: it is left out, and `unreadable` says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import Any
from zlib import crc32

from kvplan.documents.document import Document
from kvplan.errors import InputError, SpecError
from kvplan.spec.index import INDEX_NAME, Compiled, as_written, compiled, loads, write

_SUFFIXES = (".yaml", ".yml")


class SpecFolder:
    """The spec files of one folder, possibly inside a zip archive.

    Args:
        path: the folder.
        loader: the module loader that reads inside an archive, when the folder is in one.
        installed: the folder is part of an installed package. Its files do not come, go or change
            by themselves, so only those that are used are compared with the index.
        indexed: the index is kvplan's own. In a folder of the user's nothing vouches for a file of
            that name, so none is read or written.

    Attributes:
        unreadable: names of files that could not be read, and why.
    """

    def __init__(
        self, path: str, loader: Any = None, *, installed: bool = False, indexed: bool = True
    ) -> None:
        self.path = path
        self.unreadable: dict[str, SpecError] = {}
        self._loader = loader
        self._installed = installed or loader is not None
        self._indexed = indexed
        found = self._read_index() if indexed else None
        self._whole = found is not None
        self._compared = False
        self._files = found or {}

    def files(self, *, holding: str = "", as_known: bool = False) -> list[tuple[str, Any]]:
        """Name and plain data of every file that can be read, in order of names.

        Args:
            holding: leave out files that do not contain this text, in any case.
            as_known: once the files were compared with the index, do not compare them again.
        """
        if not (self._installed and self._whole) and not (as_known and self._compared):
            self._refresh()
        wanted = as_written(holding)
        return [
            (name, self._files[name].data)
            for name in sorted(self._files)
            if not wanted or wanted in self._files[name].text.lower()
        ]

    def document(self, name: str, *, parsed: bool = False) -> Document:
        """One file's document: the compiled one while the file is what was compiled, else parsed.

        Args:
            name: the file.
            parsed: parse it in any case: compiled data has no places.

        Raises:
            SpecError: the file is not a readable YAML document.
        """
        known = self._files.get(name)
        full = self._full(name)
        try:
            data = self._read(name)
        except (SpecError, OSError):
            if known is None or not self._installed:
                raise
            return Document(data=known.data, name=full)
        if known is not None and known.crc32 == crc32(data) and not parsed:
            return Document(data=known.data, name=full)
        return _parsed(data, full)

    def compiled(self) -> dict[str, Compiled]:
        """Every spec of the folder, read from its file and checked.

        Raises:
            SpecError: a file that is no spec.
        """
        from kvplan.spec.reader import read_spec

        found = {}
        for name, (size, modified) in self._stats().items():
            data = self._read(name)
            document = _parsed(data, self._full(name))
            read_spec(document)
            found[name] = compiled(size, modified, crc32(data), document.data)
        return found

    def _refresh(self) -> None:
        """Bring the compiled data up to the files."""
        files: dict[str, Compiled] = {}
        broken: dict[str, SpecError] = {}
        for name, (size, modified) in self._stats().items():
            known = self._files.get(name)
            if known is not None and (known.size, known.modified) == (size, modified):
                files[name] = known
                continue
            made = self._compile(name, size, modified, known)
            if isinstance(made, SpecError):
                broken[name] = made
            else:
                files[name] = made
        changed = files != self._files
        self._files, self.unreadable = files, broken
        self._compared = True
        if changed and self._indexed and not self._installed:
            with suppress(OSError):  # a folder of somebody else's: the next command parses again
                write(self._full(INDEX_NAME), files)

    def _compile(
        self, name: str, size: int, modified: int, known: Compiled | None
    ) -> Compiled | SpecError:
        try:
            data = self._read(name)
            checksum = crc32(data)
            if known is not None and known.crc32 == checksum:
                return known._replace(size=size, modified=modified)
            document = _parsed(data, self._full(name))
        except SpecError as error:
            return error
        return compiled(size, modified, checksum, document.data)

    def _stats(self) -> dict[str, tuple[int, int]]:
        """Size and time of writing of the folder's spec files; hidden ones are editors' own."""
        if self._loader is not None:
            return dict.fromkeys(_names_inside(self._loader, self.path), (0, 0))
        try:
            with os.scandir(self.path) as found:
                return {item.name: _stamp(item) for item in found if _is_spec(item.name)}
        except OSError as error:
            where = error.filename or self.path
            raise SpecError(f"cannot be read: {error.strerror}", where=where) from None

    def _full(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> bytes:
        if self._loader is not None:
            data: bytes = self._loader.get_data(self._full(name))
            return data
        from kvplan.documents.files import read_bytes
        from kvplan.documents.policy import SPEC

        return read_bytes(self._full(name), SPEC)

    def _read_index(self) -> dict[str, Compiled] | None:
        path = self._full(INDEX_NAME)
        try:
            if self._loader is not None:
                return loads(self._loader.get_data(path))
            with open(path, "rb", buffering=0) as file:
                return loads(file.read())
        except OSError:
            return None


def _is_spec(name: str) -> bool:
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _stamp(item: os.DirEntry[str]) -> tuple[int, int]:
    """Size and time of writing; of a dead link nothing, so that reading it says why."""
    try:
        found = item.stat()
    except OSError:
        return (-1, -1)
    return (found.st_size, found.st_mtime_ns)


def _parsed(data: bytes, name: str) -> Document:
    from kvplan.documents.files import decode
    from kvplan.documents.from_yaml import read_yaml
    from kvplan.documents.policy import SPEC

    return read_yaml(decode(data, name, SPEC), name)


def _names_inside(loader: Any, path: str) -> list[str]:
    """The spec files of a folder in the archive that a loader reads."""
    from zipfile import ZipFile

    inside = os.path.relpath(path, loader.archive).replace(os.sep, "/") + "/"
    with ZipFile(loader.archive) as archive:
        names = [name[len(inside) :] for name in archive.namelist() if name.startswith(inside)]
    return [name for name in names if "/" not in name and _is_spec(name)]


@cache
def builtin_folder() -> SpecFolder:
    """The catalogue that comes with kvplan: in the package when installed, beside it in a clone.

    Raises:
        InputError: it is missing.
    """
    import kvplan

    package = os.path.dirname(os.path.abspath(kvplan.__file__))
    inside = os.path.join(package, "model_specs")
    beside = os.path.join(os.path.dirname(package), "model_specs")
    if os.path.isdir(inside):
        return SpecFolder(inside, installed=True)
    if os.path.isdir(beside):
        return SpecFolder(beside)
    loader = kvplan.__spec__.loader if kvplan.__spec__ else None
    if hasattr(loader, "archive"):
        for path in (inside, beside):
            if _names_inside(loader, path):
                return SpecFolder(path, loader)
    raise InputError("the model catalogue is missing", where=inside, hint="install kvplan again")


def main() -> None:
    """Check every spec of the catalogue in this clone and write its index (`make catalogue`)."""
    folder = builtin_folder()
    write(os.path.join(folder.path, INDEX_NAME), folder.compiled())


if __name__ == "__main__":
    main()
