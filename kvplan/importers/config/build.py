"""From a parsed file to a model: find the text config, let its family read it, assemble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.documents.document import Document
from kvplan.errors import ImportRefused
from kvplan.importers.config import beside, common, hints
from kvplan.importers.config.aliases import ALIASES, CONTEXT_KEYS
from kvplan.importers.config.cacheless import keeps_no_cache
from kvplan.importers.config.defaults import class_defaults
from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families import reader
from kvplan.importers.config.layout import Layout, full, layer_count
from kvplan.importers.config.plain import LAYER_TYPES, active_window, uniform
from kvplan.importers.config.sizes import sizes
from kvplan.importers.config.wrappers import text_path, text_type
from kvplan.importers.imported import Fact, Imported, Origin
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FieldError
from kvplan.spec.vocabulary import PLAIN_KIND

# Facts that say which layer is of which kind.
_LAYER_FACTS = ("layers by kind", "period", "offset", "indexer layers", "num_kv_shared_layers")


def build(
    source: Document,
    name: str,
    quant: Mapping[str, Any] | None = None,
    ignored: Sequence[str] = (),
) -> Imported:
    """Import one parsed config.

    Args:
        source: the file.
        name: the model's name in the spec.
        quant: content of an hf_quant_config.json beside it.
        ignored: keys that the user declares to have no say in the cache.

    Raises:
        ImportRefused: a fact is missing, contradicts another, or is not understood.
    """
    _refuse_adapter(source)
    root = Facts(source)
    path = text_path(source.data)
    model_type = text_type(source.data, path)
    facts = Facts(source, path, model_type, class_defaults(model_type))
    root.text("model_type")
    facts.text("model_type")
    facts.ignore("architectures")
    facts.harmless = frozenset(ignored)
    known = reader(model_type) is not None
    if not known and keeps_no_cache(model_type):
        facts.refuse(
            f"model_type {model_type!r} keeps no cache of past tokens: there is nothing to plan",
            key="model_type" if facts.has("model_type") else None,
        )
    try:
        spec = _spec(facts, root, _layout(facts), name, quant)
    except FieldError as error:
        raise ImportRefused(error.message, where=source.locate(path, key=True)) from None
    except ImportRefused:
        if not known:  # a key that was not understood is the better reason
            facts.ignore(*(name for names in ALIASES.values() for name in names), *CONTEXT_KEYS)
            hints.check(facts, known=False)
            beside.check(facts)
        raise
    hints.check(facts, known=known)
    beside.check(facts)
    if ignored:
        spec = spec.replaced(notes=f"declared to have no say in the cache: {', '.join(ignored)}")
    found = (*facts.found.values(), *kind_facts(facts, spec))
    return Imported(spec=spec, facts=found, warnings=tuple(facts.warnings))


def _refuse_adapter(source: Document) -> None:
    """A LoRA adapter has no layers of its own: what it is laid on has."""
    base = source.data.get("base_model_name_or_path")
    if "peft_type" not in source.data or not isinstance(base, str):
        return
    raise ImportRefused(
        f"is an adapter ({source.data['peft_type']}) of {base}, whose cache it uses",
        where=source.locate(("base_model_name_or_path",), key=True),
        hint=f"name the base model: {base}",
    )


def kind_facts(facts: Facts, spec: ModelSpec) -> Iterator[Fact]:
    """Where the order of the layers, and the numbers of each kind of layer, came from."""
    for field in _LAYER_FACTS:
        if field in facts.found:
            yield Fact("layers", None, _origins({field: facts.found[field]}))
    for name, states in spec.kinds.items():
        given = (i.name for s in states for i in s.fields() if getattr(s, i.name) is not None)
        fields = {field: _field_of(facts, name, field) for field in given}
        found = {field: facts.found[key] for field, key in fields.items() if key in facts.found}
        if found:
            alone = name == PLAIN_KIND and len(spec.kinds) == 1
            yield Fact(PLAIN_KIND if alone else f"kinds.{name}", None, _origins(found))


def _field_of(facts: Facts, kind: str, field: str) -> str:
    """The fact behind a field of one kind of layer: that kind's own, where it has one."""
    if field == "dtype":
        return "state dtype"
    return f"{kind}.{field}" if f"{kind}.{field}" in facts.found else field


def _origins(found: Mapping[str, Fact]) -> Origin:
    return Origin(lambda: ", ".join(f"{field}: {fact.origin}" for field, fact in found.items()))


def _layout(facts: Facts) -> Layout:
    read = reader(facts.model_type)
    if read is not None:
        return read(facts)
    layout = assumed(facts)
    facts.warn(
        "assumed-plain-attention",
        f"model_type {facts.model_type!r} is not known; nothing in the file hints at another "
        "layout, so plain attention on every layer is assumed",
    )
    return layout


def assumed(facts: Facts) -> Layout:
    """Plain attention for a type that is not known; a window that may close refutes it."""
    for key in ("is_encoder_decoder", "add_cross_attention"):
        if facts.flag(key):
            hints.refuse(facts, facts.place(key), True)
    classes = facts.texts("architectures") or []
    if any(name.endswith(("MaskedLM", "ForCTC", "Encoder")) for name in classes):
        hints.refuse(facts, facts.place("architectures"), classes)
    types = facts.texts("layer_types") or []
    if any(LAYER_TYPES.get(word) != "full" for word in types):
        hints.refuse(facts, facts.place("layer_types"), types)
    layers = layer_count(facts)
    if types:
        facts.length("layer_types", len(types), layers)
    state = full(facts)
    window = active_window(facts)
    bounds = [value for key in CONTEXT_KEYS if (value := facts.whole(key)) is not None]
    if window is not None and not (bounds and window >= min(bounds)):
        key = next(key for key in facts.names("window") if facts.has(key))
        hints.refuse(facts, facts.place(key), window)
    return uniform(facts, layers, state)


def _spec(
    facts: Facts, root: Facts, layout: Layout, name: str, quant: Mapping[str, Any] | None
) -> ModelSpec:
    architectures = root.texts("architectures") or facts.texts("architectures")
    if facts.model_type and facts.has("model_type"):
        facts.note("model_type", facts.model_type, facts.origin("model_type"))
    if architectures:
        book = root if root.has("architectures") else facts
        facts.note("architecture", architectures[0], book.origin("architectures"))
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
        image_attention=common.image_attention(facts),
        text_attention=common.text_attention(facts),
        rope=common.rope(facts),
        sizes=sizes(facts, root, len(layout.layers)),
        source=source_name(facts),
        kinds=layout.kinds,
        layers=layout.layers,
        draft_layers=layout.draft,
    )


def _heads(facts: Facts) -> int | None:
    found = facts.found.get("heads")
    return int(found.value) if found else None


def source_name(facts: Facts) -> str | None:
    """The file the spec comes from, in characters that a text file can hold."""
    name = facts.source.name
    return None if name is None else name.encode("utf-8", "replace").decode("utf-8")
