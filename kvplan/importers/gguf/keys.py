"""Typed access to the metadata of one model: every value is checked before it becomes a fact.

Keys are named without the architecture's prefix (`attention.head_count`); a message and an origin
name them in full (`llama.attention.head_count`). Nothing here has a default: a key is there with a
value of its type, or it is absent, or the file is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from kvplan.errors import ImportRefused
from kvplan.importers.gguf.file import GgufHeader
from kvplan.importers.gguf.values import Skipped, Value, shown
from kvplan.importers.imported import Fact
from kvplan.notice import Notice

BUILD = "llama.cpp b11434"
RULE = f"rule of {BUILD}"
MAX_NUMBER = 2**32 - 1  # llama.cpp reads every dimension as uint32


class Keys:
    """The keys `<architecture>.*` of a header, and the facts and warnings found on the way."""

    def __init__(self, header: GgufHeader, architecture: str) -> None:
        self.header = header
        self.architecture = architecture
        self.facts: list[Fact] = []
        self.warnings: list[Notice] = []

    def full(self, key: str) -> str:
        """The key as it stands in the file."""
        return f"{self.architecture}.{key}"

    def raw(self, key: str) -> Value | None:
        """The value as read, None if the key is absent."""
        return self.header.metadata.get(self.full(key))

    def names(self) -> list[str]:
        """Every key of the architecture, without its prefix, in file order."""
        prefix = self.architecture + "."
        return [key[len(prefix) :] for key in self.header.metadata if key.startswith(prefix)]

    def note(self, field: str, origin: str, value: object = None) -> None:
        """Record where a fact of the spec came from."""
        self.facts.append(Fact(field, value, origin))

    def warn(self, id_: str, message: str) -> None:
        """Record something to mind."""
        self.warnings.append(Notice(id_, message))

    def refuse(self, key: str, what: str, *, hint: str | None = None) -> NoReturn:
        """Refuse the file for the value of a key, or for its absence."""
        raise ImportRefused(f"{self.full(key)} {what}", where=str(self.header.path), hint=hint)

    def number(self, key: str, *, minimum: int = 1) -> int | None:
        """A whole number, None if the key is absent.

        Raises:
            ImportRefused: another type, an array, or a number outside minimum .. 2^32 - 1.
        """
        value = self.raw(key)
        return None if value is None else self._whole(key, value, minimum)

    def required(self, key: str, *, minimum: int = 1) -> int:
        """A whole number that must be there."""
        value = self.number(key, minimum=minimum)
        if value is None:
            self.refuse(key, "is missing", hint="the file lacks a fact that its model needs")
        return value

    def switch(self, key: str) -> bool | None:
        """A bool, None if the key is absent."""
        value = self.raw(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, f"is {brief(value)}, not a bool")
        return value

    def per_layer(self, key: str, layers: int) -> tuple[int, ...] | None:
        """One whole number (0 allowed) per layer, from an array or from one number for all.

        Raises:
            ImportRefused: an array that has not one element for each of `layers`.
        """
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, tuple | Skipped):
            return (self._whole(key, value, 0),) * layers
        return self.array(key, (layers,))

    def array(self, key: str, lengths: Sequence[int]) -> tuple[int, ...]:
        """An array of whole numbers (0 allowed) or bools, which must be there.

        Args:
            key: the key.
            lengths: the lengths that make sense.
        """
        value = self.raw(key)
        if value is None:
            self.refuse(key, "is missing")
        if not isinstance(value, tuple):
            self.refuse(key, f"is {brief(value)}, not an array with one element per layer")
        if len(value) not in lengths:
            wanted = " or ".join(str(length) for length in dict.fromkeys(lengths))
            self.refuse(key, f"has {len(value)} elements, the model has {wanted} layers")
        return tuple(
            int(item) if isinstance(item, bool) else self._whole(f"{key}[{index}]", item, 0)
            for index, item in enumerate(value)
        )

    def _whole(self, key: str, value: Value, minimum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"is {brief(value)}, not a whole number")
        if not minimum <= value <= MAX_NUMBER:
            self.refuse(key, f"is {value}, outside {minimum} .. 2^32 - 1")
        return value


def brief(value: Value | None) -> str:
    """A value for a message, short whatever the file holds."""
    if isinstance(value, Skipped):
        return f"{value.value_type} of length {value.length}"
    if isinstance(value, str):
        return shown(value)
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:57] + "..."
