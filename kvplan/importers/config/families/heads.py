"""Families whose layers are plain, but whose heads hide behind keys of their own."""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    full,
    head_dim,
    layer_count,
)
from kvplan.importers.config.plain import plain, uniform
from kvplan.spec.states import FullAttention


@family("falcon", "RefinedWeb", "RefinedWebModel")
def falcon(facts: Facts) -> Layout:
    """Falcon: new_decoder_architecture has num_kv_heads, else multi_query means one KV head."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    if facts.flag("new_decoder_architecture") or facts.model_type == "RefinedWeb":
        facts.ignore("multi_query")
        count = facts.count("kv_heads")
        if heads % count:
            facts.refuse(f"{count} KV heads do not divide {heads} heads", key="num_kv_heads")
    elif facts.flag("multi_query"):
        facts.ignore("num_kv_heads", "n_head_kv")
        origin = (
            facts.origin("multi_query")
            if facts.stands("multi_query")
            else (f"class default ({facts.defaults.source}: multi_query)" if facts.defaults else "")
        )
        facts.note("kv_heads", 1, f"multi_query: one KV head ({origin})")
        count = 1
    else:
        facts.ignore("num_kv_heads", "n_head_kv")
        count = int(facts.derive("kv_heads", heads, "multi_query is false: one per query head"))
    return uniform(facts, layers, FullAttention(kv_heads=count, head_dim=head_dim(facts, heads)))


@family("gpt_bigcode")
def gpt_bigcode(facts: Facts) -> Layout:
    """StarCoder and SantaCoder: multi_query is one KV head."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    count = 1 if facts.flag("multi_query") else heads
    given = facts.optional("num_key_value_heads", "num_key_value_heads")
    if given is not None and given != count:
        facts.refuse(
            f"num_key_value_heads {given} contradicts multi_query, which means {count}",
            key="num_key_value_heads",
        )
    facts.note("kv_heads", count, facts.origin("multi_query"))
    return uniform(facts, layers, FullAttention(kv_heads=count, head_dim=head_dim(facts, heads)))


@family("chatglm")
def chatglm(facts: Facts) -> Layout:
    """ChatGLM: multi_query_group_num counts only with multi_query_attention."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    if facts.flag("multi_query_attention"):
        count = facts.count("kv_heads", "multi_query_group_num")
        if heads % count:
            facts.refuse(f"{count} groups do not divide {heads} heads", key="multi_query_group_num")
    else:
        facts.ignore("multi_query_group_num")
        count = int(facts.derive("kv_heads", heads, "no multi_query_attention: one per query head"))
    facts.ignore("interleaved_qkv")
    return uniform(facts, layers, FullAttention(kv_heads=count, head_dim=head_dim(facts, heads)))


@family("phi3_v", "phi4")
def phi3_vision(facts: Facts) -> Layout:
    """Phi-3 vision and Phi-4: a window no shorter than the context, so no token ever leaves it."""
    if facts.whole("full_attn_mod") not in (None, 1):
        facts.refuse("full_attn_mod is not 1, so layers differ", key="full_attn_mod")
    window = facts.optional("window")
    context = facts.optional("max_context", "max_position_embeddings")
    if window is not None and context is not None and window >= context:
        facts.derive("window", None, f"a window of {window} never closes within {context} tokens")
        return uniform(facts, layer_count(facts), full(facts))
    return plain(facts)


@family("phi3small")
def phi3_small(facts: Facts) -> Layout:
    """Phi-3 small: block-sparse layers read fewer keys, but all layers keep them all."""
    facts.ignore("dense_attention_every_n_layers", "pad_sequence_to_multiple_of_64")
    facts.ignore(*(key for key in facts.data if key.startswith("blocksparse_")))
    return plain(facts)


@family("phi3", "phi4mm", "phi4_multimodal")
def phi3(facts: Facts) -> Layout:
    """Phi-3 and Phi-4: one window for all layers; full_attn_mod 1 makes every layer alike."""
    if facts.whole("full_attn_mod") not in (None, 1):
        facts.refuse("full_attn_mod is not 1, so layers differ", key="full_attn_mod")
    facts.ignore("interpolate_factor")
    return plain(facts)


@family("dbrx")
def dbrx(facts: Facts) -> Layout:
    """DBRX: the KV heads stand in attn_config."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    count = facts.count("kv_heads", "attn_config.kv_n_heads")
    if heads % count:
        facts.refuse(f"{count} KV heads do not divide {heads} heads", key="attn_config.kv_n_heads")
    return uniform(facts, layers, FullAttention(kv_heads=count, head_dim=head_dim(facts, heads)))


@family("mpt")
def mpt(facts: Facts) -> Layout:
    """MPT: attn_config.attn_type says how the query heads share K and V."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    type_ = facts.text("attn_config.attn_type") or "multihead_attention"
    counts = {"multihead_attention": heads, "multiquery_attention": 1}
    if type_ == "grouped_query_attention":
        counts[type_] = facts.count("kv_heads", "attn_config.kv_n_heads")
    if type_ not in counts:
        facts.refuse(f"attn_type {type_!r} is not known", key="attn_config.attn_type")
    if heads % counts[type_]:
        facts.refuse(
            f"{counts[type_]} KV heads do not divide {heads}", key="attn_config.kv_n_heads"
        )
    facts.note("kv_heads", counts[type_], facts.origin("attn_config.attn_type"))
    facts.ignore("attn_config.attn_uses_sequence_id")
    state = FullAttention(kv_heads=counts[type_], head_dim=head_dim(facts, heads))
    return uniform(facts, layers, state)


@family("jetmoe")
def jetmoe(facts: Facts) -> Layout:
    """JetMoE: one set of KV heads serves every expert's query heads."""
    layers = layer_count(facts)
    count = facts.count("kv_heads")
    heads = count * facts.count("experts", "num_experts_per_tok")
    facts.derive("heads", heads, f"{count} KV heads x num_experts_per_tok")
    dim = facts.count("head_dim", "kv_channels")
    return uniform(facts, layers, FullAttention(kv_heads=count, head_dim=dim))
