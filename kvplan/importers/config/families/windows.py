"""Families that mix whole-context layers with windowed or chunked ones.

Sources: transformers 5.24.0 configuration_*.py of each class, checked against the layer plans of
vLLM 0.33.0.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    draft_count,
    drafts,
    every,
    full,
    head_dim,
    kv_heads,
    layer_count,
    layer_names,
    sliding,
)
from kvplan.importers.config.plain import LAYER_TYPES, mixed, periodic, plain, uniform
from kvplan.spec.states import FullAttention, State


@family("mellum")
def listed(facts: Facts) -> Layout:
    """Mellum: windows only where layer_types says so; the draft layer has one."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES) or ("full",) * layers
    words = facts.texts("mtp_layer_types")
    draft = "full" if words and words[0] == "full_attention" else "sliding"
    return mixed(facts, names, full(facts), draft)


@family("gpt_oss", "cohere2", "cohere_compass_text", "olmo3", "exaone4", "exaone4_5_text")
@family("exaone_moe", "vaultgemma")
def alternating(facts: Facts) -> Layout:
    """Windows, and a full layer at the end of every period."""
    return periodic(facts)


@family("cohere2_moe")
def cohere2_moe(facts: Facts) -> Layout:
    """Command A with experts: the first dense layers follow a pattern of their own."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    prefix = facts.optional("prefix_period", "prefix_dense_sliding_window_pattern") or 1
    period = facts.count("period", "sliding_window_pattern")
    if names is None:
        dense = min(facts.whole("first_k_dense_replace", least=0) or 0, layers)
        first = every(dense, prefix, "full", "sliding")
        names = first + every(layers - dense, period, "full", "sliding")
    return mixed(facts, names, full(facts))


@family("doge")
def doge(facts: Facts) -> Layout:
    """Doge: its mask keeps keep_window_size tokens in sight, the cache keeps all."""
    facts.ignore("keep_window_size")
    return plain(facts)


@family("afmoe")
def afmoe(facts: Facts) -> Layout:
    """Arcee Trinity: one global layer in global_attn_every_n_layers."""
    return periodic(facts, key="global_attn_every_n_layers")


@family("cwm", "granite_swa", "granitemoe_swa")
def full_first(facts: Facts) -> Layout:
    """The first layer of every four is the full one (transformers 5.24.0 CwmConfig)."""
    facts.derive(
        "period", 4, "the class's layer types (transformers 5.24.0 CwmConfig, GraniteSWAConfig)"
    )
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    return mixed(facts, names or every(layers, 4, "full", "sliding", at=0), full(facts))


@family("muse_glimmer_text", "muse_spark_text")
def full_last(facts: Facts) -> Layout:
    """Every fourth layer, counted back from the last, is full."""
    layers = layer_count(facts)
    facts.derive("period", 4, "the class's layer types (transformers 5.24.0 MuseGlimmerTextConfig)")
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    return mixed(
        facts, names or every(layers, 4, "full", "sliding", at=(layers - 1) % 4), full(facts)
    )


@family("llama4_text")
def llama4(facts: Facts) -> Layout:
    """Llama 4: chunked local attention, and whole-context layers where rotary keys are left out."""
    layers = layer_count(facts)
    state = full(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    rotary = facts.wholes("no_rope_layers")
    if names is None and rotary:
        facts.length("no_rope_layers", len(rotary), layers)
        names = tuple("chunked" if flag else "full" for flag in rotary)
    if names is None:
        names = every(layers, facts.count("period", "no_rope_layer_interval"), "full", "chunked")
    facts.ignore("no_rope_layer_interval", "no_rope_layers")
    if facts.stands("attention_chunk_size") and not facts.has("attention_chunk_size"):
        return uniform(facts, layers, state)
    return mixed(facts, names, state)


@family("laguna")
def laguna(facts: Facts) -> Layout:
    """Laguna: the query heads differ by layer, the KV heads do not."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    per_layer = facts.wholes("num_attention_heads_per_layer", least=1) or [heads] * layers
    facts.length("num_attention_heads_per_layer", len(per_layer), layers)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES) or ("full",) * layers
    facts.ignore(*facts.names("window"))
    own: dict[str, int] = {}
    for name, count in zip(names, per_layer, strict=True):
        if own.setdefault(name, count) != count:
            facts.refuse(
                f"num_attention_heads_per_layer: {name} layers have both {own[name]} and {count}",
                key="num_attention_heads_per_layer",
            )
    kinds: dict[str, tuple[State, ...]] = {}
    for name, count in own.items():
        state = FullAttention(
            kv_heads=kv_heads(facts, heads),
            head_dim=head_dim(facts, heads),
            heads=count if count != heads else None,
        )
        kinds[name] = (sliding(state, facts.count("window")) if name == "sliding" else state,)
    return Layout(kinds=kinds, layers=names, draft=drafts(facts, "full"))


@family("step3p5", "step3p7", "step3_text")
def step3(facts: Facts) -> Layout:
    """Step 3.5 and 3.7: the list of layer types may also cover the draft layers."""
    layers = layer_count(facts)
    types = facts.texts("layer_types") or []
    extra = draft_count(facts, "num_nextn_predict_layers") or 0
    covered = layers + extra if len(types) == layers + extra else layers
    names = layer_names(facts, "layer_types", covered, LAYER_TYPES)
    if names is None and facts.has("sliding_window"):
        facts.refuse(
            "layer_types is missing, so which layers the sliding_window is of is unknown",
            key="sliding_window",
            hint='write "layer_types": sliding_attention or full_attention for each layer',
        )
    if names is None:
        return plain(facts)
    state = full(facts)
    kinds: dict[str, tuple[State, ...]] = {"full": (state,)}
    if "sliding" in names:
        kinds["sliding"] = (sliding(_step3_local(facts, state), facts.count("window")),)
    draft = names[layers:] or drafts(facts, "full")
    facts.ignore("attention_other_setting", "share_q_dim", "yarn_only_types")
    facts.ignore("num_sliding_attention_heads")
    return Layout(kinds=compact(kinds, names, draft), layers=names[:layers], draft=draft)


def _step3_local(facts: Facts, state: FullAttention) -> FullAttention:
    """The heads of the windowed layers, where attention_other_setting gives them others."""
    key = "attention_other_setting"
    own = facts.optional("swa_heads", "num_sliding_attention_heads")
    if own is not None and own != facts.count("heads"):
        return state.replaced(heads=own)
    if not facts.has(key):
        return state
    heads = facts.optional("swa_heads", f"{key}.num_attention_heads")
    return FullAttention(
        kv_heads=facts.optional("swa_kv_heads", f"{key}.num_attention_groups") or state.kv_heads,
        head_dim=facts.optional("swa_head_dim", f"{key}.head_dim") or state.head_dim,
        heads=heads if heads != facts.count("heads") else None,
    )


@family("mimo_v2_flash", "mimo_v2")
def mimo_v2(facts: Facts) -> Layout:
    """MiMo V2: sliding layers with their own KV heads, V shorter than K, drafts with a window."""
    layers = layer_count(facts)
    pattern = facts.wholes("hybrid_layer_pattern")
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    if names is None and pattern is not None:
        facts.length("hybrid_layer_pattern", len(pattern), layers)
        names = tuple("sliding" if flag else "full" for flag in pattern)
    if names is None:
        facts.refuse(
            "hybrid_layer_pattern is missing",
            hint='write "hybrid_layer_pattern": 0 (full) or 1 (window) for each layer',
        )
    heads = facts.count("heads")
    own = facts.optional("swa_heads", "swa_num_attention_heads") or heads
    whole = FullAttention(
        kv_heads=kv_heads(facts, heads),
        head_dim=head_dim(facts, heads),
        v_head_dim=facts.optional("v_head_dim"),
    )
    local = FullAttention(
        kv_heads=facts.optional("swa_kv_heads", "swa_num_key_value_heads") or whole.kv_heads,
        head_dim=facts.optional("swa_head_dim") or whole.head_dim,
        v_head_dim=facts.optional("swa_v_head_dim") or whole.v_head_dim,
        heads=own if own != heads else None,
    )
    facts.ignore("attention_chunk_size")  # set beside the window, and not used by the model's code
    kinds: dict[str, tuple[State, ...]] = {
        "full": (whole,),
        "sliding": (sliding(local, facts.count("window")),),
    }
    draft = drafts(facts, "sliding")
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


_NEO = {"global": "full", "local": "sliding"}


@family("gpt_neo")
def gpt_neo(facts: Facts) -> Layout:
    """GPT-Neo: `attention_types: [[["global", "local"], 12]]`."""
    layers = layer_count(facts)
    names: list[str] = []
    listed = facts.texts("attention_layers")
    runs = facts.take("attention_types") if listed is None else [[[w], 1] for w in listed]
    facts.ignore("attention_types")
    if runs is not None and not isinstance(runs, list):
        facts.refuse(f"attention_types is {runs!r}, it must be a list", key="attention_types")
    for run in runs if runs is not None else [[["global", "local"], layers // 2]]:
        if not (isinstance(run, list) and len(run) == 2 and isinstance(run[0], list)):
            facts.refuse("attention_types is not made of [[kinds], times]", key="attention_types")
        if not isinstance(run[1], int) or not 0 < run[1] <= layers:
            facts.refuse(f"attention_types repeats {run[1]!r} times", key="attention_types")
        names += [_NEO.get(str(word), "") for word in run[0]] * run[1]
    facts.length("attention_types", len(names), layers)
    if any(name not in ("full", "sliding") for name in names):
        facts.refuse(
            "attention_types holds other words than global and local", key="attention_types"
        )
    state = full(facts)
    kinds: dict[str, tuple[State, ...]] = {
        "full": (state,),
        "sliding": (sliding(state, facts.count("window", "window_size")),),
    }
    return Layout(kinds=compact(kinds, names), layers=tuple(names))
