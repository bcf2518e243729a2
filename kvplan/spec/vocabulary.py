"""The words of a spec file, read off the frozen types: one list serves the reader, the writer and
the JSON Schema, so the three cannot disagree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from kvplan.dtypes import SPELLINGS
from kvplan.named_tuple import NamedTuple
from kvplan.record import MISSING, Record
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import MAX_VALUE, State

# Kind -> the module and class that define it. The recurrent kinds are loaded when first met: most
# models have none, and defining a class takes longer than using it.
_HOMES = {
    "full": ("states", "FullAttention"),
    "sliding": ("states", "SlidingAttention"),
    "chunked": ("states", "ChunkedAttention"),
    "latent": ("states", "LatentAttention"),
    "compressed_latent": ("states", "CompressedLatent"),
    "indexer": ("states", "Indexer"),
    "cross": ("states", "CrossAttention"),
    "shared": ("states", "SharedCache"),
    "mamba1": ("recurrent", "Mamba1"),
    "mamba2": ("recurrent", "Mamba2"),
    "gated_delta_net": ("recurrent", "GatedDeltaNet"),
    "kda": ("recurrent", "KimiDeltaAttention"),
    "lightning": ("recurrent", "LightningAttention"),
    "short_conv": ("recurrent", "ShortConvolution"),
    "rg_lru": ("recurrent", "LinearRecurrentUnit"),
    "rwkv": ("recurrent", "Rwkv"),
    "recurrent": ("recurrent", "GenericRecurrent"),
}
KIND_NAMES = tuple(_HOMES)
NOTHING = "none"  # the kind of a layer that keeps nothing
PLAIN_KIND = "attention"  # the kind's name in the short form for plain models

# How a field's annotation reads in a spec: (JSON Schema type, what a message calls it).
_TYPES: dict[str, tuple[Any, str]] = {
    "int": ({"type": "integer", "minimum": 1, "maximum": MAX_VALUE}, "a whole number"),
    "float": ({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_VALUE}, "a number"),
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

# Keys that name an element format, or several.
_FORMATS = ("dtype", "kv_dtype", "conv_dtype", "unsupported_dtypes")


class Word(NamedTuple):
    """One key of a spec: its name, type, whether it must be there, and its description."""

    name: str
    type: str
    required: bool
    doc: str

    @property
    def schema(self) -> dict[str, Any]:
        """The key's JSON Schema."""
        schema = {**_TYPES[self.type][0], "description": self.doc}
        if self.name in _FORMATS and self.type == "str":
            schema["enum"] = list(SPELLINGS)
        elif self.name in _FORMATS:
            schema["propertyNames"] = {"enum": list(SPELLINGS)}
        return schema

    @property
    def called(self) -> str:
        """What a message calls the type."""
        return _TYPES[self.type][1]


def kind_class(kind: str) -> type[State]:
    """The type of a kind of state, by its name in specs."""
    module, name = _HOMES[kind]
    found: type[State] = getattr(import_module(f"kvplan.spec.{module}"), name)
    return found


def words(owner: type[Record]) -> Iterator[Word]:
    """The keys that a type's fields make: those with a description and a plain type."""
    for item in owner.fields():
        type_ = item.type.removesuffix(" | None")
        if item.doc and type_ in _TYPES:
            yield Word(item.name, type_, item.default is MISSING, item.doc)


@cache
def state_words(kind: str) -> dict[str, Word]:
    """The keys of a state of this kind, by name."""
    return {word.name: word for word in words(kind_class(kind))}


def model_words() -> dict[str, Word]:
    """The plain top-level keys of a spec, by name."""
    return {word.name: word for word in words(ModelSpec)}
