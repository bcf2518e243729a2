"""A cursor through a document: a value, and where it and its key stand in the file.

A document inside a string (a ConfigMap's YAML, a heredoc, JSON in a variable) is read as a document
of its own whose places are those of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvplan.deployments.text import Mapped, aligned
from kvplan.documents.document import Document, Path, Place
from kvplan.documents.from_yaml import read_stream
from kvplan.documents.policy import DEPLOYMENT

_MISSING: Any = None


class Node:
    """One value of a document.

    Attributes:
        data: the value; None for one that is not there.
    """

    __slots__ = ("_document", "_lines", "_outer", "_path", "data")

    def __init__(
        self, data: Any, document: Document, path: Path, lines: Sequence[str],
        outer: Mapped | None = None,
    ) -> None:  # fmt: skip
        self.data = data
        self._document = document
        self._path = path
        self._lines = lines
        self._outer = outer

    def __bool__(self) -> bool:
        return self.data is not None

    def get(self, *path: str | int) -> Node:
        """A value inside, or a missing one."""
        data = self.data
        for key in path:
            if isinstance(data, dict) and isinstance(key, str):
                data = data.get(key)
            elif isinstance(data, list) and isinstance(key, int) and -1 < key < len(data):
                data = data[key]
            else:
                data = _MISSING
                break
        return Node(data, self._document, (*self._path, *path), self._lines, self._outer)

    def only(self, key: str) -> Node:
        """A mapping with one key alone."""
        data = {key: self.data[key]}
        return Node(data, self._document, self._path, self._lines, self._outer)

    def first(self, *names: str) -> Node:
        """The first of several keys that is there."""
        for name in names:
            found = self.get(name)
            if found:
                return found
        return self.get(names[-1])

    def items(self) -> Iterator[tuple[str, Node]]:
        """The keys and values of a mapping; nothing for what is none."""
        if isinstance(self.data, dict):
            for key in self.data:
                yield key, self.get(key)

    def each(self) -> Iterator[Node]:
        """The items of a list; nothing for what is none."""
        if isinstance(self.data, list):
            for index in range(len(self.data)):
                yield self.get(index)

    @property
    def key(self) -> str:
        """Its key or index."""
        return str(self._path[-1]) if self._path else ""

    @property
    def is_map(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.data, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.data, list)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one value."""
        return self.data is not None and not isinstance(self.data, (dict, list))

    @property
    def text(self) -> str:
        """A scalar as it is written; empty for anything else."""
        if isinstance(self.data, str):
            return self.data
        if not self.is_scalar:
            return ""
        written = self._document.places.written(self._path)
        return str(self.data) if written is None else written

    def place(self, *, key: bool = False) -> Place:
        """Line and column in the file."""
        return self._up(self._document.places.find(self._path, key=key))

    def _up(self, place: Place) -> Place:
        if self._outer is None:
            return place
        row = min(place[0] - 1, len(self._lines) - 1)
        return self._outer.place(sum(len(x) + 1 for x in self._lines[:row]) + place[1] - 1)

    def mapped(self) -> Mapped:
        """The text of a scalar, with the place of each part."""
        text = self.text
        found = aligned(text, self._lines, self._document.places.find(self._path))
        if self._outer is None:
            return found
        return Mapped(text, [(offset, *self._up(place)) for offset, place in found.marks()])

    def inner(self) -> list[Node]:
        """The documents inside a string; none where it holds none."""
        return documents(self.mapped()) if isinstance(self.data, str) else []


def documents(text: Mapped) -> list[Node]:
    """The mappings and lists that a text holds as YAML or JSON."""
    stream = read_stream(text.text, "", DEPLOYMENT)
    lines = text.text.split("\n")
    return [
        Node(document.data, document, (), lines, text)
        for document in stream.documents
        if isinstance(document.data, (dict, list))
    ]
