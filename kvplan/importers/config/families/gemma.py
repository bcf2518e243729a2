"""Gemma 2 to 4: windows, shared tails, and heads of their own on full layers.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    every,
    full,
    layer_count,
    layer_names,
    sliding,
)
from kvplan.importers.config.plain import LAYER_TYPES, periodic
from kvplan.spec.states import FullAttention, SharedCache, State


@family("gemma2", "gemma3_text")
def gemma(facts: Facts) -> Layout:
    """Gemma 2 and 3; with attention in both directions (EmbeddingGemma) an encoder."""
    if facts.flag("use_bidirectional_attention"):
        return bidirectional(facts)
    return periodic(facts)


def bidirectional(facts: Facts) -> Layout:
    """A text model that reads in both directions keeps nothing."""
    facts.note("layers", None, facts.origin("use_bidirectional_attention"))
    facts.ignore(
        "layer_types", "sliding_window", "sliding_window_pattern", "_sliding_window_pattern",
        "use_sliding_window", "max_window_layers",
    )  # fmt: skip
    facts.count("heads")
    return Layout(kinds={"encoder": ()}, layers=("encoder",) * layer_count(facts))


@family("gemma3n_text", "gemma4_text", "gemma4_unified_text")
def gemma_shared(facts: Facts) -> Layout:
    """Gemma 3n and 4: the last num_kv_shared_layers read the last own layer of their kind."""
    if facts.take("use_bidirectional_attention") == "all":
        return bidirectional(facts)
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES) or every(
        layers, facts.count("period", "sliding_window_pattern"), "full", "sliding"
    )
    local = full(facts)
    kinds: dict[str, tuple[State, ...]] = {
        "full": (_global_heads(facts, names, local),),
        "sliding": (sliding(local, facts.count("window")),),
        "shared_full": (SharedCache(reads="full"),),
        "shared_sliding": (SharedCache(reads="sliding"),),
    }
    shared = _shared_layers(facts, layers)
    names = names[: layers - shared] + tuple(f"shared_{name}" for name in names[layers - shared :])
    return Layout(kinds=compact(kinds, names), layers=names)


def _shared_layers(facts: Facts, layers: int) -> int:
    shared = facts.whole("num_kv_shared_layers", least=0)
    if shared is None and facts.defaults is not None:
        value = facts.defaults.value("num_kv_shared_layers", nested=True)
        shared = int(value or 0)
        facts.note("num_kv_shared_layers", shared, f"class default ({facts.defaults.source})")
    else:
        facts.note("num_kv_shared_layers", shared, facts.origin("num_kv_shared_layers"))
    if (shared or 0) >= layers:
        facts.refuse(
            f"num_kv_shared_layers {shared} leaves none of {layers} layers",
            key="num_kv_shared_layers",
        )
    return shared or 0


def _global_heads(facts: Facts, names: tuple[str, ...], local: FullAttention) -> FullAttention:
    """Full layers of Gemma 4 have a head size of their own, and KV heads where K and V are one."""
    own = facts.inner("per_layer_config")
    if own is not None:
        facts.ignore("attention_k_eq_v", "num_global_key_value_heads", "global_head_dim")
        return _own_heads(facts, names, own, local)
    if facts.model_type == "gemma3n_text":
        return local
    dim = facts.count("full.head_dim", "global_head_dim")
    heads = local.kv_heads
    if facts.flag("attention_k_eq_v"):
        heads = facts.optional("full.kv_heads", "num_global_key_value_heads") or heads
    else:
        facts.ignore("num_global_key_value_heads")
    return FullAttention(kv_heads=heads, head_dim=dim)


def _own_heads(
    facts: Facts, names: tuple[str, ...], own: object, local: FullAttention
) -> FullAttention:
    """`per_layer_config`: the same overrides on every full layer, and only there."""
    assert isinstance(own, dict)
    key = "per_layer_config"
    full_layers = {index for index, name in enumerate(names) if name == "full"}
    given = {int(index) for index in own if str(index).isdigit()}
    values = [value for value in own.values() if isinstance(value, dict)]
    known = {"head_dim", "num_key_value_heads"}
    if given != full_layers or len(values) != len(own) or any(v != values[0] for v in values):
        facts.refuse(f"{key} does not change all full layers alike, and only them", key=key)
    if not set(values[0]) <= known:
        facts.refuse(f"{key} changes {sorted(set(values[0]) - known)}", key=key)
    first = next(iter(own))
    for name, field in (("num_key_value_heads", "kv_heads"), ("head_dim", "head_dim")):
        if facts.has(f"{key}.{first}.{name}"):
            facts.note(f"full.{field}", None, facts.origin(f"{key}.{first}.{name}"))
    return FullAttention(
        kv_heads=facts.whole(f"{key}.{first}.num_key_value_heads") or local.kv_heads,
        head_dim=facts.whole(f"{key}.{first}.head_dim") or local.head_dim,
    )
