"""One config as a book of facts: every value that is read is noted with where it came from.

A fact is found in the file (`config.json:12:3 num_hidden_layers`), fixed by the model class
(`class default: transformers 5.24.0 Gemma3TextConfig`), or derived from others (`derived: ...`).
Anything else is refused with the key and what to write. What was read or knowingly passed over is
remembered, so that the importer can ask at the end which keys nobody understood.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kvplan.documents.document import Document, Path
from kvplan.errors import ImportRefused
from kvplan.importers.config.aliases import ALIASES
from kvplan.importers.config.defaults import ClassDefaults
from kvplan.importers.imported import Fact, Origin
from kvplan.notice import Notice

LARGEST_COUNT = 2**40  # no count of a model comes near; keeps products printable


class Facts:
    """The text config of one model, read by fact and by key.

    Args:
        source: the whole file.
        path: where the text config stands in it, () for the root.
        model_type: model type of the text model, None if the file names none.
        defaults: what the model's class fixes; None for a class that is not known.
    """

    def __init__(
        self,
        source: Document,
        path: Path = (),
        model_type: str | None = None,
        defaults: ClassDefaults | None = None,
    ) -> None:
        self.source = source
        self.path = path
        self.model_type = model_type
        self.defaults = defaults
        self.data: Mapping[str, Any] = _at(source.data, path)
        self.found: dict[str, Fact] = {}
        self.warnings: list[Notice] = []
        self.used: set[Path] = set()
        self.passed: set[Path] = set()
        self.harmless: frozenset[str] = frozenset()  # keys that the user declares to be so

    # -- places and complaints --------------------------------------------------------------

    def place(self, key: str) -> Path:
        """The path of a key (dots go into nested objects) from the root of the file."""
        return (*self.path, *key.split("."))

    def origin(self, key: str) -> Origin:
        """`config.json:12:3 key`, or `key` for data that came from no file."""
        return Origin(lambda: self._origin(self.place(key)))

    def _origin(self, path: Path) -> str:
        name = ".".join(map(str, path))
        where = self.source.locate(path, key=True)
        return f"{os.path.basename(where)} {name}" if where else name

    def refuse(self, message: str, *, key: str | None = None, hint: str | None = None) -> NoReturn:
        """Raise ImportRefused with the place of `key`."""
        path = self.place(key) if key else self.path
        raise ImportRefused(message, where=self.source.locate(path, key=True), hint=hint)

    def note(self, field: str, value: Any, origin: Origin | str) -> None:
        """Record a fact; the first origin of a field stays."""
        self.found.setdefault(field, Fact(field, value, origin))

    def derive(self, field: str, value: Any, how: str) -> Any:
        """Record a fact that follows from others, and return it."""
        self.note(field, value, f"derived: {how}")
        return value

    def warn(self, id_: str, message: str) -> None:
        """Add a warning."""
        self.warnings.append(Notice(id_, message))

    # -- keys -------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """True if the key stands there and is not null."""
        return self._look(key) is not None

    def stands(self, key: str) -> bool:
        """True if the key stands there, null or not."""
        parent = _at(self.data, tuple(key.split(".")[:-1]))
        return isinstance(parent, Mapping) and key.split(".")[-1] in parent

    def ignore(self, *keys: str) -> None:
        """Mark keys, and all they hold, as understood and without a say in what the cache holds."""
        self.passed.update(self.place(key) for key in keys)

    def declared_harmless(self, path: Path) -> bool:
        """Whether the user declared a key, by its name or its dotted path, to be harmless."""
        return not self.harmless.isdisjoint((str(path[-1]), ".".join(map(str, path))))

    def _look(self, key: str) -> Any:
        return _at(self.data, tuple(key.split(".")))

    def take(self, key: str) -> Any:
        """The value of a key as it stands, None if it does not; the key counts as understood.

        Raises:
            ImportRefused: what a dotted key goes into is no object.
        """
        self.used.add(self.place(key))
        parent, _, _ = key.rpartition(".")
        if parent and self.stands(parent) and not isinstance(self._look(parent), Mapping | None):
            found = _shown(self._look(parent))
            self.refuse(f"{parent} is {found}, it must be an object", key=parent)
        return self._look(key)

    def glance(self, key: str) -> Any:
        """The value of a key that nothing depends on; it is neither checked nor understood."""
        return self._look(key)

    def names(self, field: str) -> tuple[str, ...]:
        """The keys a fact is looked up under."""
        return ALIASES.get(field, (field,))

    # -- typed values -----------------------------------------------------------------------

    def whole(self, key: str, *, least: int = 1) -> int | None:
        """A whole number of at least `least`, None if absent or null."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"{key} is {_shown(value)}, it must be a whole number", key=key)
        if not least <= value <= LARGEST_COUNT:
            limit = f"at least {least}" if value < least else f"at most {LARGEST_COUNT:,}"
            self.refuse(f"{key} is {value}, it must be {limit}", key=key)
        return value

    def optional(self, field: str, *keys: str) -> int | None:
        """A positive count under any of its names, None if none stands there; names must agree."""
        found: dict[str, int] = {}
        for key in keys or self.names(field):
            value = self.whole(key)
            if value is not None:
                found[key] = value
        if len(set(found.values())) > 1:
            pairs = ", ".join(f"{key} {value}" for key, value in found.items())
            self.refuse(f"keys contradict each other: {pairs}", key=next(iter(found)))
        for key, value in found.items():
            self.note(field, value, self.origin(key))
            return value
        return self._default(field, keys or self.names(field))

    def count(self, field: str, *keys: str) -> int:
        """A positive count that must be known.

        Raises:
            ImportRefused: it stands under none of its names and the class fixes none.
        """
        value = self.optional(field, *keys)
        if value is not None:
            return value
        name = (keys or self.names(field))[0]
        null = next((key for key in keys or self.names(field) if self.stands(key)), None)
        what = f"{null} is null" if null else f"{name} is missing"
        self.refuse(what, key=null, hint=f'write "{name}": a whole number, as the model has it')

    def _default(self, field: str, keys: Sequence[str]) -> int | None:
        """The class default of the first key that has one and does not stand in the file."""
        if self.defaults is None:
            return None
        for key in keys:
            value = self.defaults.value(key, nested=bool(self.path))
            if value is not None and not self.stands(key):
                self.note(field, value, f"class default ({self.defaults.source}: {key})")
                return value
        return None

    def flag(self, key: str, default: bool = False) -> bool:
        """A yes or no; the class default, else `default`, when absent or null."""
        value = self.take(key)
        if value is None and self.defaults is not None:
            value = self.defaults.value(key, nested=bool(self.path))
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(f"{key} is {_shown(value)}, it must be true or false", key=key)
        return value

    def text(self, key: str) -> str | None:
        """A text, None if absent or null."""
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{key} is {_shown(value)}, it must be a text", key=key)
        return value

    def texts(self, key: str) -> list[str] | None:
        """A list of texts, None if absent or null."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(f"{key} is {_shown(value)}, it must be a list of texts", key=key)
        return value

    def wholes(self, key: str, *, least: int = 0) -> list[int] | None:
        """A list of whole numbers, None if absent or null."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and least <= item <= LARGEST_COUNT
            for item in value
        ):
            self.refuse(f"{key} is {_shown(value)}, it must be a list of whole numbers", key=key)
        return value

    def inner(self, key: str) -> Mapping[str, Any] | None:
        """A nested object, None if absent or null."""
        value = self.take(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(f"{key} is {_shown(value)}, it must be an object", key=key)
        return value

    def length(self, key: str, given: int, expected: int, of: str = "layers") -> None:
        """Refuse a list that has not one entry per layer."""
        if given != expected:
            self.refuse(f"{key} has {given} entries for {expected} {of}", key=key)


def _at(data: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return None
        data = data[key]
    return data


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
