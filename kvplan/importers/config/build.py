"""From a parsed file to a model: find the text config, let its family read it, assemble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from kvplan.errors import ImportRefused
from kvplan.importers.config import common, hints
from kvplan.importers.config.defaults import class_defaults
from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families import reader
from kvplan.importers.config.layout import Layout
from kvplan.importers.config.plain import plain
from kvplan.importers.config.read import Source
from kvplan.importers.config.wrappers import text_path, text_type
from kvplan.importers.imported import Fact, Imported
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FieldError
from kvplan.spec.vocabulary import PLAIN_KIND


def build(source: Source, name: str, quant: Mapping[str, Any] | None = None) -> Imported:
    """Import one parsed config.

    Args:
        source: the file.
        name: the model's name in the spec.
        quant: content of an hf_quant_config.json beside it.

    Raises:
        ImportRefused: a fact is missing, contradicts another, or is not understood.
    """
    root = Facts(source)
    path = text_path(source.data)
    model_type = text_type(source.data, path)
    facts = Facts(source, path, model_type, class_defaults(model_type))
    facts.ignore("model_type", "architectures")
    try:
        layout = _layout(facts)
        spec = _spec(facts, root, layout, name, quant)
    except FieldError as error:
        raise ImportRefused(error.message, where=source.locate(path)) from None
    known = reader(model_type) is not None
    hints.check(facts, known=known)
    found = (*facts.found.values(), *kind_facts(facts, spec))
    return Imported(spec=spec, facts=found, warnings=tuple(facts.warnings))


def kind_facts(facts: Facts, spec: ModelSpec) -> Iterator[Fact]:
    """For every kind of layer, where the numbers of its states came from."""
    for name, states in spec.kinds.items():
        origins = []
        for item in (item for state in states for item in fields(state)):
            fact = facts.found.get(item.name)
            line = f"{item.name}: {fact.origin}" if fact else None
            if line and line not in origins:
                origins.append(line)
        if origins:
            alone = name == PLAIN_KIND and len(spec.kinds) == 1
            yield Fact(PLAIN_KIND if alone else f"kinds.{name}", None, ", ".join(origins))


def _layout(facts: Facts) -> Layout:
    read = reader(facts.model_type)
    if read is not None:
        return read(facts)
    layout = plain(facts)
    facts.warn(
        "assumed-plain-attention",
        f"model_type {facts.model_type!r} is not known; nothing in the file hints at another "
        "layout, so plain attention on every layer is assumed",
    )
    return layout


def _spec(
    facts: Facts, root: Facts, layout: Layout, name: str, quant: Mapping[str, Any] | None
) -> ModelSpec:
    architectures = root.texts("architectures") or facts.texts("architectures")
    method, cache = common.quantisation(facts, root, quant)
    return ModelSpec(
        name=name,
        model_type=facts.model_type,
        architecture=architectures[0] if architectures else None,
        max_context=common.max_context(facts),
        dtype=common.dtype(facts, root),
        kv_dtype=cache,
        quant_method=method,
        heads=layout.heads or _heads(facts),
        hidden_size=facts.optional("hidden_size"),
        vocab_size=facts.optional("vocab_size")
        or (root.optional("vocab_size") if facts.path else None),
        encoder_tokens=layout.encoder_tokens,
        rope=common.rope(facts),
        source=source_name(facts),
        kinds=layout.kinds,
        layers=layout.layers,
        draft_layers=layout.draft,
    )


def _heads(facts: Facts) -> int | None:
    found = facts.found.get("heads")
    return int(found.value) if found else None


def source_name(facts: Facts) -> str | None:
    """The file the spec comes from."""
    return facts.source.name
