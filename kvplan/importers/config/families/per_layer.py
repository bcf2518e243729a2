"""Families whose layers attend, each with KV heads, sharing or index keys of its own.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    drafts,
    full,
    head_dim,
    layer_count,
    layer_names,
)
from kvplan.importers.config.plain import LAYER_TYPES, plain, uniform
from kvplan.spec.states import FullAttention, Indexer, SharedCache, State


@family("nemotron-nas", "nemotron_nas")
def nemotron_nas(facts: Facts) -> Layout:
    """Nemotron Super and Ultra (DeciLM): every block says what it is, and many are no attention."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    dim = head_dim(facts, heads)
    facts.ignore(*facts.names("kv_heads"))
    kinds: dict[str, tuple[State, ...]] = {"mlp": ()}
    names = []
    blocks = facts.take("block_configs")
    if not isinstance(blocks, list):
        facts.refuse("block_configs is missing, so the layers are unknown")
    facts.length("block_configs", len(blocks), layers)
    for index, block in enumerate(blocks):
        names.append(_block(facts, kinds, heads, dim, f"block_configs[{index}]", block))
    return Layout(kinds=compact(kinds, names), layers=tuple(names))


def _block(
    facts: Facts,
    kinds: dict[str, tuple[State, ...]],
    heads: int,
    dim: int,
    name: str,
    block: object,
) -> str:
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        facts.refuse(f"{name} has no attention entry", key="block_configs")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return "mlp"
    for key in ("window_length", "num_sink_tokens", "sparsify"):
        if attention.get(key) not in (None, False):
            facts.refuse(f"{name}.attention.{key} is {attention[key]!r}", key="block_configs")
    group = attention.get("n_heads_in_group")
    if isinstance(group, bool) or not isinstance(group, int) or group < 1 or heads % group:
        facts.refuse(
            f"{name}.attention.n_heads_in_group is {group!r}, which does not divide {heads} heads",
            key="block_configs",
        )
    count = heads // group
    facts.note(
        "kv_heads", count, f"{heads} heads / n_heads_in_group ({facts.origin('block_configs')})"
    )
    kind = next((k for k, s in kinds.items() if s == (_heads(count, dim),)), None)
    if kind is None:
        kind = "full" if "full" not in kinds else f"full_{count}"
        kinds[kind] = (_heads(count, dim),)
    return kind


@family("deci")
def deci(facts: Facts) -> Layout:
    """DeciLM: KV heads by layer."""
    layers = layer_count(facts)
    heads = facts.count("heads")
    counts = facts.wholes("num_key_value_heads_per_layer", least=1)
    if counts is None:
        return plain(facts)
    facts.ignore(*facts.names("kv_heads"))
    return _by_layer(facts, "num_key_value_heads_per_layer", counts, [heads] * layers)


@family("openelm")
def openelm(facts: Facts) -> Layout:
    """OpenELM: query and KV heads by layer."""
    layers = layer_count(facts, "num_transformer_layers")
    queries = facts.wholes("num_query_heads", least=1) or []
    counts = facts.wholes("num_kv_heads", least=1) or []
    facts.length("num_query_heads", len(queries), layers)
    facts.ignore("num_gqa_groups")
    return _by_layer(facts, "num_kv_heads", counts, queries)


def _by_layer(facts: Facts, key: str, counts: list[int], heads: list[int]) -> Layout:
    facts.length(key, len(counts), len(heads))
    dim = facts.optional("head_dim") or head_dim(facts, heads[0])
    kinds: dict[str, tuple[State, ...]] = {}
    names = []
    for count, queries in zip(counts, heads, strict=True):
        name = f"full_{queries}_{count}"
        kinds[name] = (FullAttention(kv_heads=count, head_dim=dim, heads=queries),)
        names.append(name)
    facts.note("kv_heads", counts, facts.origin(key))
    return Layout(kinds=kinds, layers=tuple(names), heads=max(heads))


def _heads(count: int, dim: int) -> FullAttention:
    return FullAttention(kv_heads=count, head_dim=dim)


@family("hunyuan")
def hunyuan(facts: Facts) -> Layout:
    """Hunyuan: with use_cla the layers between two of cla_share_factor read the one before them."""
    layers = layer_count(facts)
    state = full(facts)
    if facts.flag("use_mla") or facts.has("kv_lora_rank"):
        facts.refuse("a Hunyuan model with a latent cache is not known here", key="kv_lora_rank")
    if not facts.flag("use_cla"):
        facts.ignore("cla_share_factor")
        return uniform(facts, layers, state)
    factor = facts.count("cla_share_factor", "cla_share_factor")
    names = tuple("full" if index % factor == 0 else "shared_full" for index in range(layers))
    kinds: dict[str, tuple[State, ...]] = {
        "full": (state,),
        "shared_full": (SharedCache(reads="full"),),
    }
    return Layout(kinds=compact(kinds, names), layers=names)


@family("minimax_m3", "minimax_m3_vl_text")
def minimax_m3(facts: Facts) -> Layout:
    """MiniMax M3: most layers choose blocks with one index key per token beside K and V."""
    layers = layer_count(facts)
    state = full(facts)
    flags = facts.wholes("sparse_attention_config.sparse_attention_freq")
    names = layer_names(
        facts, "layer_types", layers, {**LAYER_TYPES, "minimax_m3_sparse": "full_indexed"}
    )
    if names is None and flags is not None:
        facts.length("sparse_attention_config.sparse_attention_freq", len(flags), layers)
        names = tuple("full_indexed" if flag else "full" for flag in flags)
    facts.ignore("sparse_attention_config")
    if names is None or not facts.flag(
        "sparse_attention_config.use_sparse_attention", default=True
    ):
        return uniform(facts, layers, state)
    dim = facts.optional(
        "index_head_dim", "sparse_attention_config.sparse_index_dim", "index_head_dim"
    )
    if dim is None:
        facts.refuse("sparse_attention_config.sparse_index_dim is missing")
    facts.ignore("index_n_heads", "index_block_size", "index_topk_blocks", "index_local_blocks")
    kinds: dict[str, tuple[State, ...]] = {
        "full": (state,),
        "full_indexed": (state, Indexer(head_dim=dim)),
    }
    draft = drafts(facts, "full_indexed" if "full_indexed" in names else "full")
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)
