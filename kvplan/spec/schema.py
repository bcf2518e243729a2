"""The JSON Schema of a spec (draft 2020-12), made from the same words that the reader checks.

Choices are written as conditions (`if` its kind is this, `then` that), not as alternatives: an
editor then shows the one thing that is wrong, not what is wrong with each of twenty kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.spec.model import MAX_LAYERS, VARIANT_FACTS, Rope, Sizes
from kvplan.spec.vocabulary import (
    KIND_NAMES,
    NOTHING,
    PLAIN_KIND,
    Word,
    kind_class,
    model_words,
    state_words,
    words,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def spec_schema() -> dict[str, Any]:
    """The schema of a spec file."""
    top = _object(model_words(), "A model as far as its memory is concerned.")
    top["properties"] |= {
        "rope": {"$ref": "#/$defs/rope"},
        "variants": {
            "type": "object",
            "description": "an id or alias of the spec -> what its own config says otherwise",
            "additionalProperties": _variant(),
        },
        "sizes": {"$ref": "#/$defs/sizes"},
        PLAIN_KIND: {
            **_one_or_more("plain_state"),
            "description": "what every layer keeps, when all are alike; kind: full if not said",
        },
        "kinds": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": _one_or_more("state"),
            "description": "named kinds of layer: what one layer of each keeps",
        },
        "layers": {
            "description": "a number of equal layers, or the kinds in order",
            **_either(
                {"type": "integer", "minimum": 1, "maximum": MAX_LAYERS}, {"$ref": "#/$defs/run"}
            ),
        },
        "draft_layers": {
            "$ref": "#/$defs/run",
            "description": "extra layers of multi-token prediction, counted only when asked for",
        },
    }
    top["required"] = [*top["required"], "layers"]
    top["oneOf"] = [{"required": [PLAIN_KIND]}, {"required": ["kinds"]}]
    nothing = {
        "type": "object",
        "properties": {"kind": {"const": NOTHING}},
        "required": ["kind"],
        "additionalProperties": False,
        "description": "keeps nothing: a feed-forward or expert layer",
    }
    return {
        "$schema": DIALECT,
        "title": "kvplan model spec",
        **top,
        "$defs": {
            "rope": _object({word.name: word for word in words(Rope)}, "rotary scaling"),
            "sizes": _object(
                {word.name: word for word in words(Sizes)}, "sizes of what is no cache"
            ),
            "state": _by_kind(needs_kind=True),
            "plain_state": _by_kind(needs_kind=False),
            **{_def(kind): _state(kind) for kind in KIND_NAMES},
            _def(NOTHING): nothing,
            "run": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/layer"}},
            "layer": _LAYER,
        },
    }


def _either(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The first schema for a value of its type, else the second."""
    return {"if": {"type": first["type"]}, "then": first, "else": second}


_LAYER: Mapping[str, Any] = _either(
    {"type": "string", "description": "the name of a kind"},
    {
        "type": "object",
        "properties": {
            "repeat": {"type": "integer", "minimum": 1, "maximum": MAX_LAYERS},
            "of": _either({"type": "string"}, {"$ref": "#/$defs/run"}),
        },
        "required": ["repeat", "of"],
        "additionalProperties": False,
        "description": "the same layers several times in a row",
    },
)


def _one_or_more(name: str) -> dict[str, Any]:
    one = {"$ref": f"#/$defs/{name}"}
    return _either({"type": "array", "minItems": 1, "items": one}, one)


def _by_kind(*, needs_kind: bool) -> dict[str, Any]:
    """A state of any kind; without a kind it is full attention, where it needs none."""
    kinds = (*KIND_NAMES, NOTHING)
    described = {kind: kind_class(kind).summary for kind in KIND_NAMES}
    conditions = []
    for kind in kinds:
        is_kind: dict[str, Any] = {"properties": {"kind": {"const": kind}}}
        if needs_kind or kind != "full":
            is_kind["required"] = ["kind"]
        conditions.append({"if": is_kind, "then": {"$ref": f"#/$defs/{_def(kind)}"}})
    said = "; ".join(f"{kind}: {text}" for kind, text in described.items())
    return {
        "type": "object",
        "properties": {"kind": {"enum": list(kinds), "description": said}},
        **({"required": ["kind"]} if needs_kind else {}),
        "allOf": conditions,
    }


def _variant() -> dict[str, Any]:
    vocabulary = model_words()
    return {
        "type": "object",
        "properties": {name: vocabulary[name].schema for name in VARIANT_FACTS},
        "additionalProperties": False,
    }


def _def(kind: str) -> str:
    return f"state_{kind}"


def _state(kind: str) -> dict[str, Any]:
    schema = _object(state_words(kind), kind_class(kind).summary)
    schema["properties"] = {"kind": {"const": kind}, **schema["properties"]}
    return schema


def _object(vocabulary: Mapping[str, Word], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": {word.name: word.schema for word in vocabulary.values()},
        "required": [word.name for word in vocabulary.values() if word.required],
        "additionalProperties": False,
    }
