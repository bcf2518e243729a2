"""Models by name: the catalogue that ships with kvplan, and folders of the user's own.

A name matches a spec's `name`, one of its `aliases` or `hf_ids`, in any case, with or without the
organisation in front. A user's folder (`--specs DIR`, `KVPLAN_SPECS`) goes before the catalogue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from kvplan.documents.document import Document
from kvplan.errors import SpecError, UnknownModelError
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.spec.folder import SpecFolder, builtin_folder
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec

ENVIRONMENT = "KVPLAN_SPECS"


class Entry(NamedTuple):
    """A spec's plain data and the names it answers to, without having built the model."""

    data: Any
    file_name: str
    folder: SpecFolder

    @property
    def file(self) -> str:
        """The path of the spec's file."""
        return os.path.join(self.folder.path, self.file_name)

    @property
    def name(self) -> str:
        """The spec's own short name (the file's name when the spec has none yet)."""
        value = self._get("name")
        return value if isinstance(value, str) else self.file_name

    def names(self) -> tuple[str, ...]:
        """Every full name, as written: name, aliases, Hugging Face ids."""
        lists = (self._get("aliases"), self._get("hf_ids"))
        more = [item for part in lists if isinstance(part, list) for item in part]
        return (self.name, *(item for item in more if isinstance(item, str)))

    def text(self, key: str) -> str:
        """A top-level text of the document, "" when absent."""
        value = self._get(key)
        return value if isinstance(value, str) else ""

    def current(self) -> Entry:
        """The entry as its file is now."""
        return self._replace(data=self.folder.document(self.file_name).data)

    def spec(self) -> ModelSpec:
        """Build the model.

        Raises:
            SpecError: the document breaks the vocabulary.
        """
        try:
            return read_spec(Document(data=self.data, name=self.file))
        except SpecError:  # read again, for the place
            return read_spec(self.folder.document(self.file_name, parsed=True))

    def _get(self, key: str) -> object:
        return self.data.get(key) if isinstance(self.data, dict) else None


class Catalogue:
    """All specs that can be named.

    Args:
        folders: folders of the user's own, first wins; None reads the environment.
    """

    def __init__(self, folders: Sequence[str] | None = None) -> None:
        if folders is None:
            folders = [part for part in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if part]
        folders = [os.path.expanduser(folder) for folder in folders]
        for folder in folders:
            if not os.path.isdir(folder):
                raise SpecError("the spec folder does not exist or is no folder", where=folder)
        self._own = [SpecFolder(folder, indexed=False) for folder in folders]
        self._builtin = builtin_folder()

    def entries(self, *, holding: str = "", as_known: bool = False) -> Iterator[Entry]:
        """Every spec that can be read, the user's own first.

        Args:
            holding: leave out specs that do not contain this text, in any case.
            as_known: the catalogue's files as they were when they were looked at before.
        """
        for folder in (*self._own, self._builtin):
            yield from _entries(folder, holding, as_known=as_known)

    def notices(self) -> tuple[Notice, ...]:
        """A warning for each file met on the way that could not be read and was left out."""
        return tuple(
            Notice("spec-left-out", f"{error.where}: {error.message}; the file is left out")
            for _, error in self._left_out()
        )

    def _left_out(self) -> list[tuple[str, SpecError]]:
        folders = (*self._own, self._builtin)
        return [item for folder in folders for item in folder.unreadable.items()]

    def find(self, query: str) -> Entry:
        """The one spec that answers to a name.

        Raises:
            UnknownModelError: none or several do; `candidates` names them or the closest.
            SpecError: its file cannot be read.
        """
        found = self.look_up(query)
        if found is None:
            raise self.unknown(query)
        return found

    def look_up(self, query: str) -> Entry | None:
        """The one spec that answers to a name, None if none does.

        Raises:
            UnknownModelError: several do.
            SpecError: its file cannot be read.
        """
        for folder in (*self._own, self._builtin):
            entry = self._find_in(folder, query)
            if entry is not None:
                return entry
        for name, error in self._left_out():
            if os.path.splitext(name)[0].lower() == _plain(query):
                raise error
        return None

    def find_loosely(self, query: str) -> Entry | None:
        """The one spec that answers to a name written another way (`Llama 3:8B`), or None.

        A Hugging Face id is exact: another spelling of it may be another model.
        """
        from kvplan.spec.names import answers

        if "/" in query:
            return None
        seen: set[str] = set()
        found = []
        for entry in self.entries():
            if entry.name not in seen and answers(entry.names(), query):
                found.append(entry)
            seen.add(entry.name)
        return found[0] if len(found) == 1 else None

    def _find_in(self, folder: SpecFolder, query: str) -> Entry | None:
        entries = _matches(_entries(folder, _plain(query)), query)
        # What matched in an unchecked index must still match in the file itself.
        entries = _matches((entry.current() for entry in entries), query)
        if len(entries) > 1:
            names = sorted(entry.name for entry in entries)
            if len(set(names)) < len(names):  # only their files tell them apart
                names = sorted(entry.file for entry in entries)
            raise UnknownModelError(
                f"{query!r} is the name of {len(names)} models",
                candidates=names,
                ambiguous=True,
                hint="one of " + ", ".join(names),
            )
        return entries[0] if entries else None

    def unknown(self, query: str) -> UnknownModelError:
        """The error for a name that nothing answers to, with the nearest names."""
        from shlex import quote

        from kvplan.spec.names import MOST, holds, nearest

        known = {entry.name: entry.names() for entry in self.entries()}
        names = nearest(known.values(), query)[:MOST]
        hint = f"did you mean {', '.join(names)}?" if names else "`kvplan models` lists all"
        holding = sum(holds(each, query) for each in known.values()) if names else 0
        if holding > 1:
            hint += f" `kvplan models --search {quote(query.strip())}` lists {holding}"
        left_out = [str(error.where) for _, error in self._left_out()]
        if left_out:
            hint += f"; left out, as it cannot be read: {', '.join(left_out[:3])}"
        return UnknownModelError(f"no model is called {query!r}", candidates=names, hint=hint)


def _entries(folder: SpecFolder, holding: str, *, as_known: bool = False) -> Iterator[Entry]:
    files = folder.files(holding=holding, as_known=as_known)
    return (Entry(data, name, folder) for name, data in files)


def _plain(name: str) -> str:
    return name.strip().lower()


def _matches(entries: Iterator[Entry], query: str) -> list[Entry]:
    """Entries that answer to a full name; else those that answer to it without organisation."""
    wanted = _plain(query)
    short = []
    full = []
    for entry in entries:
        names = [_plain(name) for name in entry.names()]
        if wanted in names:
            full.append(entry)
        elif any(name.rpartition("/")[2] == wanted for name in names):
            short.append(entry)
    return full or short
