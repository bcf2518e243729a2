"""Families that keep a latent (MLA), with or without an indexer: DeepSeek, Kimi, GLM 5, LongCat.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's layer plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    draft_count,
    drafts,
    full,
    layer_count,
)
from kvplan.importers.config.plain import uniform
from kvplan.spec.states import CompressedLatent, Indexer, LatentAttention, State


def latent(facts: Facts) -> LatentAttention:
    """The latent of one layer. `head_dim` and the KV heads have no say in it."""
    facts.count("heads")
    facts.ignore("head_dim", "qk_head_dim", "q_lora_rank", "mla_use_nope", *facts.names("kv_heads"))
    facts.ignore("mla_scale_q_lora", "mla_scale_kv_lora", "mla_use_output_gate")
    return LatentAttention(
        kv_lora_rank=facts.count("kv_lora_rank"),
        qk_rope_head_dim=facts.count("qk_rope_head_dim"),
        qk_nope_head_dim=facts.optional("qk_nope_head_dim"),
        v_head_dim=facts.optional("v_head_dim"),
    )


@family("deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe_lite", "minicpm3", "mistral4", "youtu")
@family("axk1", "sarvam_mla", "pangu_ultra_moe", "deepseek_mtp")
def mla(facts: Facts) -> Layout:
    """Every layer keeps one latent."""
    return uniform(facts, layer_count(facts), latent(facts))


@family("deepseek_v2")
def deepseek_v2(facts: Facts) -> Layout:
    """DeepSeek V2, and its small relatives that switch the latent off (use_mla false)."""
    if facts.flag("use_mla", default=True):
        return mla(facts)
    facts.ignore(
        "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"
    )
    return uniform(facts, layer_count(facts), full(facts))


@family("longcat_flash")
def longcat(facts: Facts) -> Layout:
    """LongCat Flash: two attention blocks in every layer; a draft layer has one."""
    state = latent(facts)
    layers = layer_count(facts)
    facts.ignore("zero_expert_num", "zero_expert_type")
    kinds: dict[str, tuple[State, ...]] = {"attention": (state, state), "mtp": (state,)}
    draft = drafts(facts, "mtp")
    names = ("attention",) * layers
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


@family("deepseek_v32", "glm_moe_dsa")
def sparse_latent(facts: Facts) -> Layout:
    """A latent everywhere, and an indexer key on the layers that choose their own tokens."""
    layers = layer_count(facts)
    state = latent(facts)
    owners = _indexer_owners(facts, layers)
    index = Indexer(head_dim=facts.count("index_head_dim"))
    _ignore_indexer(facts)
    kinds: dict[str, tuple[State, ...]] = {
        "latent_indexed": (state, index),
        "latent": (state,),
    }
    draft = drafts(facts, "latent_indexed")
    if all(owners):
        return uniform(facts, layers, state, index)
    names = tuple("latent_indexed" if owner else "latent" for owner in owners)
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


def _ignore_indexer(facts: Facts) -> None:
    facts.ignore(
        "index_n_heads",
        "index_topk",
        "index_topk_freq",
        "index_topk_pattern",
        "index_skip_topk_offset",
        "index_share_for_mtp_iteration",
        "indexer_rope_interleave",
        "layer_types",
    )


def _indexer_owners(facts: Facts, layers: int) -> list[bool]:
    """Which layers own an indexer: their list, else a pattern of F and S, else every freq-th."""
    key = "indexer_types"
    types = facts.texts(key)
    if types is None and facts.has("index_topk_pattern"):
        key = "index_topk_pattern"
        pattern = facts.take(key)
        if not isinstance(pattern, (str, list)):
            facts.refuse(f"{key} is {pattern!r}, it must be letters: FSSF", key=key)
        types = [{"F": "full", "S": "shared"}.get(str(letter), str(letter)) for letter in pattern]
    if types is not None:
        facts.length(key, len(types), layers)
        wrong = next((word for word in types if word not in ("full", "shared")), None)
        if wrong is not None:
            facts.refuse(f"{key} holds {wrong!r}, known are full and shared", key=key)
        facts.note("indexer layers", types.count("full"), facts.origin(key))
        return [word == "full" for word in types]
    frequency = facts.optional("index_topk_freq") or 1
    offset = facts.whole("index_skip_topk_offset", least=0)
    if offset is None:
        offset = facts.optional("index_skip_topk_offset") or 0
    owners = [max(index - offset + 1, 0) % frequency == 0 for index in range(layers)]
    facts.note("indexer layers", sum(owners), f"derived: one in {frequency} from layer {offset} on")
    return owners


@family("glm5_next_text", "glm5_next")
def pooled_indexer(facts: Facts) -> Layout:
    """GLM 5.3 Flash: refused, because no source says how many bytes its pooled indexer keeps."""
    facts.refuse(
        f"index_kpool is {facts.take('index_kpool')!r}: the indexer keeps pooled keys, whose size "
        "is not known here",
        key="index_kpool",
        hint="write a spec with the kinds latent, indexer (with its ratio) and kda",
    )


# Ratio of a layer -> what it keeps (DeepSeek V4): 0 the window alone.
_V4_TYPES = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}


@family("deepseek_v4", "deepseek_ref")
def deepseek_v4(facts: Facts) -> Layout:
    """DeepSeek V4: a window everywhere, compressed vectors beyond, an indexer on the finer ones."""
    layers = layer_count(facts)
    facts.count("heads")
    if facts.count("kv_heads") != 1:
        facts.refuse(
            "num_key_value_heads is not 1, which this layout rests on", key="num_key_value_heads"
        )
    facts.ignore(
        "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"
    )
    facts.ignore("compress_rope_theta", "compress_rope_parameters", "o_lora_rank", "o_groups")
    facts.ignore(*(key for key in facts.data if key.startswith("dspark_")))
    ratios = facts.wholes("compress_ratios")
    extra = draft_count(facts, "num_nextn_predict_layers") or 0
    if ratios is None:
        types = facts.texts("layer_types")
        rates = {word: facts.whole(f"compress_rates.{word}") or n for word, n in _V4_TYPES.items()}
        if types is None or any(word not in rates for word in types):
            facts.refuse(
                "compress_ratios is missing", hint='write "compress_ratios": one per layer'
            )
        ratios = [rates[word] for word in types]
    facts.ignore("compress_rates")
    key = "compress_ratios" if facts.has("compress_ratios") else "layer_types"
    if len(ratios) < layers or any(ratios[layers + extra :]):
        facts.refuse(
            f"{key} has {len(ratios)} entries for {layers} layers and {extra} draft layers", key=key
        )
    return _v4_layout(facts, ratios, layers, extra)


def _v4_layout(facts: Facts, ratios: list[int], layers: int, extra: int) -> Layout:
    dim = facts.count("head_dim")
    window = facts.count("window")
    index_dim = facts.count("index_head_dim")
    _ignore_indexer(facts)
    finer = min((ratio for ratio in ratios if ratio), default=0)
    kinds: dict[str, tuple[State, ...]] = {}
    names = []
    for ratio in (ratios + [0] * extra)[: layers + extra]:
        name = f"compressed_{ratio}" if ratio else "window"
        if name not in kinds:
            state = CompressedLatent(head_dim=dim, window=window, ratio=ratio or None)
            indexed = ratio == finer and ratio
            kinds[name] = (state, Indexer(head_dim=index_dim, ratio=ratio)) if indexed else (state,)
        names.append(name)
    if extra:
        facts.note("draft_layers", extra, facts.origin("num_nextn_predict_layers"))
    return Layout(kinds=kinds, layers=tuple(names[:layers]), draft=tuple(names[layers:]))
