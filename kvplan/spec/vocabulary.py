"""The words of a spec file, read off the frozen types: one list serves the reader, the writer and
the JSON Schema, so the three cannot disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from kvplan.spec import recurrent, states
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import State

KINDS: dict[str, type[State]] = {
    kind.kind: kind
    for kind in (
        states.FullAttention,
        states.SlidingAttention,
        states.ChunkedAttention,
        states.LatentAttention,
        states.CompressedLatent,
        states.Indexer,
        states.CrossAttention,
        states.SharedCache,
        recurrent.Mamba1,
        recurrent.Mamba2,
        recurrent.GatedDeltaNet,
        recurrent.KimiDeltaAttention,
        recurrent.LightningAttention,
        recurrent.ShortConvolution,
        recurrent.LinearRecurrentUnit,
        recurrent.Rwkv,
        recurrent.GenericRecurrent,
    )
}
NOTHING = "none"  # the kind of a layer that keeps nothing
PLAIN_KIND = "attention"  # the kind's name in the short form for plain models

# How a field's annotation reads in a spec: (JSON Schema type, what a message calls it).
_TYPES: dict[str, tuple[Any, str]] = {
    "int": ({"type": "integer", "minimum": 1}, "a whole number"),
    "float": ({"type": "number"}, "a number"),
    "str": ({"type": "string"}, "text"),
    "str | int": (
        {"type": ["string", "integer"], "minimum": 0},
        "a kind's name or a layer's index",
    ),
    "tuple[str, ...]": ({"type": "array", "items": {"type": "string"}}, "a list of texts"),
    "tuple[int, ...]": (
        {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "a list of whole numbers",
    ),
    "Mapping[str, str]": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        "a mapping of texts",
    ),
}


@dataclass(frozen=True, slots=True)
class Word:
    """One key of a spec: its name, type, whether it must be there, and its description."""

    name: str
    type: str
    required: bool
    doc: str

    @property
    def schema(self) -> dict[str, Any]:
        """The key's JSON Schema."""
        return {**_TYPES[self.type][0], "description": self.doc}

    @property
    def called(self) -> str:
        """What a message calls the type."""
        return _TYPES[self.type][1]


def _word(item: Field[Any]) -> Word:
    required = item.default is MISSING and item.default_factory is MISSING
    return Word(item.name, str(item.type).removesuffix(" | None"), required, item.metadata["doc"])


def words(owner: type[Any]) -> Iterator[Word]:
    """The keys that a type's fields make: those with a description and a plain type."""
    for item in fields(owner):
        if item.metadata.get("doc") and str(item.type).removesuffix(" | None") in _TYPES:
            yield _word(item)


def state_words(kind: str) -> dict[str, Word]:
    """The keys of a state of this kind, by name."""
    return {word.name: word for word in words(KINDS[kind])}


def model_words() -> dict[str, Word]:
    """The plain top-level keys of a spec, by name."""
    return {word.name: word for word in words(ModelSpec)}
