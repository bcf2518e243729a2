"""Families that mix attention with linear attention or short convolutions.

Sources: transformers 5.24.0 configuration_*.py, the models' own configuration files, and vLLM
0.33.0's state shapes for the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.aliases import DRAFT_KEYS
from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.latent import latent
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    drafts,
    every,
    full,
    layer_count,
    layer_names,
)
from kvplan.importers.config.plain import uniform
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    ShortConvolution,
)
from kvplan.spec.states import State

DELTA = {"linear_attention": "delta", "full_attention": "full"}


def state_dtype(facts: Facts) -> str | None:
    """The format of the recurrent matrix, only where the file names one."""
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        value = facts.text(key)
        if value is not None:
            facts.note("state dtype", value, facts.origin(key))
            return value
    return None


def ignore_prefix(facts: Facts, prefix: str) -> None:
    """Pass over every key that begins so."""
    facts.ignore(*(key for key in facts.data if key.startswith(prefix)))


def delta_net(facts: Facts) -> GatedDeltaNet:
    """The gated delta net of Qwen3-Next and later."""
    return GatedDeltaNet(
        conv_kernel=facts.count("conv_kernel", "linear_conv_kernel_dim"),
        k_heads=facts.count("k_heads", "linear_num_key_heads"),
        k_head_dim=facts.count("k_head_dim", "linear_key_head_dim"),
        v_heads=facts.count("v_heads", "linear_num_value_heads"),
        v_head_dim=facts.count("v_head_dim", "linear_value_head_dim"),
        dtype=state_dtype(facts),
    )


@family("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
def qwen_next(facts: Facts) -> Layout:
    """Full attention once in full_attention_interval layers, a gated delta net on the others."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, DELTA)
    if names is None:
        period = facts.count("period", "full_attention_interval")
        names = every(layers, period, "full", "delta")
    facts.ignore("full_attention_interval", "use_sliding_window")
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "delta": (delta_net(facts),)}
    draft = drafts(facts, "full")
    if facts.model_type == "qwen3_next" and not any(facts.stands(key) for key in DRAFT_KEYS):
        draft = ("full",)  # every checkpoint has one, and the config has no key for it
        facts.note("draft_layers", 1, "class default (vLLM 0.33.0 qwen3_next_mtp.py)")
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


@family("olmo_hybrid")
def olmo_hybrid(facts: Facts) -> Layout:
    """Olmo Hybrid: as Qwen3-Next, with delta heads that follow the attention heads by default."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, DELTA) or every(layers, 4, "full", "delta")
    heads = facts.count("heads")
    hidden = facts.count("hidden_size")
    k_heads = facts.optional("k_heads", "linear_num_key_heads") or heads
    k_dim = facts.optional("k_head_dim", "linear_key_head_dim") or (3 * hidden) // (4 * k_heads)
    state = GatedDeltaNet(
        conv_kernel=facts.count("conv_kernel", "linear_conv_kernel_dim"),
        k_heads=k_heads,
        k_head_dim=k_dim,
        v_heads=facts.optional("v_heads", "linear_num_value_heads") or heads,
        v_head_dim=facts.optional("v_head_dim", "linear_value_head_dim") or 2 * k_dim,
        dtype=state_dtype(facts),
    )
    ignore_prefix(facts, "linear_")
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "delta": (state,)}
    return Layout(kinds=compact(kinds, names), layers=names)


@family("bailing_hybrid")
def bailing_hybrid(facts: Facts) -> Layout:
    """Ling and Ring hybrids: a latent at the end of every layer_group_size, KDA on the others."""
    layers = layer_count(facts)
    names = layer_names(
        facts, "layer_types", layers, {"linear_attention": "delta", "full_attention": "latent"}
    )
    if names is None:
        names = every(layers, facts.count("period", "layer_group_size"), "latent", "delta")
    # As transformers saves it, head_dim is the rotary key's and linear layers have their own keys.
    own = {key: facts.has(f"linear_{key}") for key in ("num_heads", "head_dim", "conv_kernel_dim")}
    state = KimiDeltaAttention(
        num_heads=facts.count("kda_heads", "linear_num_heads")
        if own["num_heads"]
        else facts.count("heads"),
        head_dim=facts.count("kda_head_dim", "linear_head_dim" if own["head_dim"] else "head_dim"),
        conv_kernel=facts.count(
            "conv_kernel",
            "linear_conv_kernel_dim" if own["conv_kernel_dim"] else "short_conv_kernel_size",
        ),
        dtype=state_dtype(facts),
    )
    facts.ignore("layer_group_size", "kda_safe_gate", "kda_lower_bound", "head_dim")
    facts.ignore("short_conv_kernel_size")
    ignore_prefix(facts, "linear_")
    kinds: dict[str, tuple[State, ...]] = {"latent": (latent(facts),), "delta": (state,)}
    draft = drafts(facts, "latent")
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


@family("kimi_linear")
def kimi_linear(facts: Facts) -> Layout:
    """Kimi Linear and K3: latents on the full layers (counted from 1), KDA on the others."""
    layers = layer_count(facts)
    names = _kimi_layers(facts, layers)
    prefix = "linear_attn_config." if facts.has("linear_attn_config") else "linear_"
    keys = (
        ("head_dim", "num_heads", "short_conv_kernel_size")
        if facts.has("linear_attn_config")
        else ("head_dim", "num_heads", "conv_kernel_dim")
    )
    state = KimiDeltaAttention(
        head_dim=facts.count("kda_head_dim", prefix + keys[0]),
        num_heads=facts.count("kda_heads", prefix + keys[1]),
        conv_kernel=facts.count("conv_kernel", prefix + keys[2]),
        dtype=state_dtype(facts),
    )
    ignore_prefix(facts, "linear_")
    kinds: dict[str, tuple[State, ...]] = {"latent": (latent(facts),), "delta": (state,)}
    draft = drafts(facts, "latent")
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


def _kimi_layers(facts: Facts, layers: int) -> tuple[str, ...]:
    whole = facts.wholes("linear_attn_config.full_attn_layers", least=1)
    delta = facts.wholes("linear_attn_config.kda_layers", least=1)
    if whole is None and delta is None:
        names = layer_names(
            facts, "layer_types", layers, {"linear_attention": "delta", "full_attention": "latent"}
        )
        if names is None:
            facts.refuse(
                "linear_attn_config.full_attn_layers is missing",
                hint="write the numbers of the full layers, the first layer being 1",
            )
        return names
    every_layer = set(range(1, layers + 1))
    latents = set(whole) if whole is not None else every_layer - set(delta or ())
    deltas = set(delta) if delta is not None else every_layer - latents
    if latents & deltas or latents | deltas != every_layer:
        facts.refuse(
            f"full_attn_layers and kda_layers do not cover the {layers} layers once each",
            key="linear_attn_config.full_attn_layers",
        )
    facts.note(
        "layers by kind",
        f"{len(latents)} full",
        facts.origin("linear_attn_config.full_attn_layers"),
    )
    return tuple("latent" if index in latents else "delta" for index in range(1, layers + 1))


@family("minimax_m1", "minimax_text_01", "minimax")
def lightning(facts: Facts) -> Layout:
    """MiniMax-01 and M1: softmax attention where attn_type_list says 1, lightning where 0."""
    layers = layer_count(facts)
    flags = facts.wholes("attn_type_list")
    names = layer_names(
        facts, "layer_types", layers, {"linear_attention": "lightning", "full_attention": "full"}
    )
    if flags is not None:
        facts.length("attn_type_list", len(flags), layers)
        if set(flags) - {0, 1}:
            facts.refuse("attn_type_list holds other numbers than 0 and 1", key="attn_type_list")
        facts.note("layers by kind", f"{sum(flags)} full", facts.origin("attn_type_list"))
        names = tuple("full" if flag else "lightning" for flag in flags)
    if names is None:
        facts.refuse(
            "attn_type_list is missing", hint='write "attn_type_list": 1 (softmax) or 0 per layer'
        )
    facts.optional("window")
    ignore_prefix(facts, "linear_attn_")
    ignore_prefix(facts, "full_attn_")
    state = full(facts)
    heads = facts.count("heads")
    linear = LightningAttention(num_heads=heads, head_dim=state.head_dim, dtype=state_dtype(facts))
    kinds: dict[str, tuple[State, ...]] = {"full": (state,), "lightning": (linear,)}
    return Layout(kinds=compact(kinds, names), layers=names)


@family("minimax_m2")
def minimax_m2(facts: Facts) -> Layout:
    """MiniMax M2: softmax everywhere; its attn_type_list, where present, only says so."""
    layers = layer_count(facts)
    flags = facts.wholes("attn_type_list")
    if flags is not None:
        facts.length("attn_type_list", len(flags), layers)
        if set(flags) != {1}:
            facts.refuse("attn_type_list is not all 1, unlike MiniMax M2", key="attn_type_list")
    facts.ignore("layernorm_linear_attention_beta", "mtp_transformer_layers")
    return uniform(facts, layers, full(facts))


@family("lfm2", "lfm2_moe")
def lfm2(facts: Facts) -> Layout:
    """LFM2: short convolutions, and attention on the layers of full_attn_idxs."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, {"conv": "conv", "full_attention": "full"})
    if names is None:
        chosen = facts.wholes("full_attn_idxs")
        if chosen is None or any(index >= layers for index in chosen):
            facts.refuse(
                "neither layer_types nor full_attn_idxs says which layers attend",
                key="full_attn_idxs",
            )
        names = tuple("full" if index in set(chosen) else "conv" for index in range(layers))
    facts.ignore("full_attn_idxs", "conv_bias", "conv_dim_out", "conv_use_xavier_init")
    width = facts.optional("conv_dim", "conv_dim") or facts.count("hidden_size")
    conv = ShortConvolution(conv_kernel=facts.count("conv_kernel", "conv_L_cache"), channels=width)
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "conv": (conv,)}
    return Layout(kinds=compact(kinds, names), layers=names)
