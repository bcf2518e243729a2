"""What was read: plain data, and where each part of it stands.

A place is the line and column of a value, both counted from 1. It is looked up when somebody prints
it: most readings end without an error, and finding a place may mean reading the text once more.
"""

from __future__ import annotations

from typing import Any

from kvplan.named_tuple import NamedTuple
from kvplan.record import Record

Path = tuple[str | int, ...]
Place = tuple[int, int]
FIRST: Place = (1, 1)


class Places:
    """Where the parts of a document stand. This one knows nothing: data that came from no text."""

    def find(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value, or of its nearest parent that has one.

        Args:
            path: keys and indices from the root.
            key: the place of the key in front of the value instead.
        """
        return FIRST

    def written(self, path: Path) -> str | None:
        """A scalar as it is written, `0.10` and not 0.1; None where that is not known."""
        return None


class Renamed(Places):
    """The places of a document whose top-level keys were given other names.

    Args:
        places: of the document as it was read.
        names: new name -> the key in the text.
    """

    def __init__(self, places: Places, names: dict[str, str]) -> None:
        self._places = places
        self._names = names

    def find(self, path: Path, *, key: bool = False) -> Place:
        """The place of what stands under the old name."""
        return self._places.find(self._old(path), key=key)

    def written(self, path: Path) -> str | None:
        """The text of what stands under the old name."""
        return self._places.written(self._old(path))

    def _old(self, path: Path) -> Path:
        return (self._names.get(str(path[0]), path[0]), *path[1:]) if path else path


NO_PLACES = Places()


class Problem(NamedTuple):
    """Something odd in a document that was read all the same, and its place."""

    message: str
    place: Place


class Document(Record):
    """Plain data (dict, list, str, int, float, bool, None) and where each part stands.

    Parts that an alias repeats are one object in several places, so data is not to be changed.

    Attributes:
        data: the root value.
        name: the file's name as the user gave it, None for data that came from no file.
        places: where its parts stand.
        problems: what the policy lets pass and whoever wrote the file should hear of.
    """

    data: Any
    name: str | None = None
    places: Places = NO_PLACES
    problems: tuple[Problem, ...] = ()

    def locate(self, path: Path = (), *, key: bool = False) -> str | None:
        """`file:line:column` of a value or of its nearest parent; None without a file."""
        return None if self.name is None else located(self.name, self.places.find(path, key=key))


def located(name: str, place: Place) -> str:
    """`name:line:column`."""
    return f"{name}:{place[0]}:{place[1]}"
