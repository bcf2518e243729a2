"""Mamba 1 and 2, alone and beside attention, and the other recurrences.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's state shapes for the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.linear import state_dtype
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    full,
    layer_count,
    layer_names,
)
from kvplan.importers.config.plain import uniform
from kvplan.spec.recurrent import Mamba1, Mamba2
from kvplan.spec.states import State

MAMBA = {
    "mamba": "mamba",
    "mamba2": "mamba",
    "linear_attention": "mamba",
    "m": "mamba",
    "attention": "full",
    "full_attention": "full",
    "hybrid": "hybrid",
    "g": "hybrid",
}


def width(facts: Facts, expand: str) -> int:
    """Channels of a Mamba block: expand x hidden_size."""
    factor = facts.count("expand", expand)
    hidden = facts.count("hidden_size")
    return int(facts.derive("intermediate_size", factor * hidden, f"{factor} {expand} x {hidden}"))


def ignore_mamba(facts: Facts) -> None:
    """Pass over what shapes a Mamba block's computation, not its state."""
    facts.ignore(
        "mamba_chunk_size", "chunk_size", "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias",
        "mamba_norm_before_gate", "mamba_rms_norm", "use_mamba_kernels", "use_mambapy",
        "use_associative_scan", "use_conv_bias", "mamba_hidden_act", "hidden_mamba_act",
        "mamba_act", "use_mem_eff_path",
        "use_mem_rope", "num_mem_blocks", "use_falcon_mambapy", "expand", "mamba_expand",
        "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier", "time_step_rank",
        "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor",
    )  # fmt: skip


@family("mamba", "falcon_mamba")
def mamba1(facts: Facts) -> Layout:
    """Mamba and Falcon Mamba: no attention at all."""
    layers = layer_count(facts, "num_hidden_layers", "n_layer")
    channels = facts.optional("intermediate_size", "intermediate_size", "d_inner")
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "conv_kernel", "d_conv"),
        intermediate_size=channels or width(facts, "expand"),
        state_size=facts.count("state_size", "state_size", "d_state"),
        dtype=state_dtype(facts),
    )
    ignore_mamba(facts)
    return uniform(facts, layers, state)


@family("mamba2")
def mamba2(facts: Facts) -> Layout:
    """Mamba 2: no attention; its num_heads and head_dim are those of the state."""
    layers = layer_count(facts, "num_hidden_layers", "n_layer")
    state = Mamba2(
        conv_kernel=facts.count("conv_kernel", "conv_kernel", "d_conv"),
        num_heads=facts.count("mamba_heads", "num_heads"),
        head_dim=facts.count("mamba_head_dim", "head_dim"),
        state_size=facts.count("state_size", "state_size", "d_state"),
        n_groups=facts.count("n_groups", "n_groups"),
        dtype=state_dtype(facts),
    )
    channels = width(facts, "expand")
    if channels != state.intermediate_size:
        facts.refuse(
            f"num_heads {state.num_heads} x head_dim {state.head_dim} "
            f"is not expand x hidden_size {channels}",
            key="num_heads",
        )
    ignore_mamba(facts)
    return uniform(facts, layers, state)


def mamba2_block(facts: Facts, channels: int) -> Mamba2:
    """The Mamba 2 block under the mamba_* keys of Bamba, Granite 4 and Falcon H1."""
    heads = facts.count("mamba_heads", "mamba_n_heads")
    dim = None if facts.take("mamba_d_head") == "auto" else facts.whole("mamba_d_head")
    if dim is None and channels % heads == 0:
        dim = int(facts.derive("mamba_head_dim", channels // heads, f"{channels} / {heads} heads"))
    if dim is None or dim * heads != channels:
        facts.refuse(
            f"mamba_n_heads {heads} x mamba_d_head {dim} is not {channels} channels",
            key="mamba_n_heads",
        )
    return Mamba2(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        num_heads=heads,
        head_dim=dim,
        state_size=facts.count("state_size", "mamba_d_state"),
        n_groups=facts.count("n_groups", "mamba_n_groups"),
        dtype=state_dtype(facts),
    )


@family("granitemoehybrid", "bamba")
def bamba(facts: Facts) -> Layout:
    """Granite 4 and Bamba: Mamba 2 layers, and attention where the list says."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, MAMBA) or layer_names(
        facts, "layers_block_type", layers, MAMBA
    )
    if names is None:
        chosen = facts.wholes("attn_layer_indices")
        if chosen is None:
            facts.refuse("neither layer_types nor attn_layer_indices says which layers attend")
        if any(index >= layers for index in chosen):
            facts.refuse(
                "attn_layer_indices names a layer beyond the last", key="attn_layer_indices"
            )
        names = tuple("full" if index in set(chosen) else "mamba" for index in range(layers))
        facts.note("layers by kind", f"{len(set(chosen))} full", facts.origin("attn_layer_indices"))
    facts.ignore("attn_layer_indices")
    kinds: dict[str, tuple[State, ...]] = {}
    if "full" in names:
        kinds["full"] = (full(facts),)
    if "mamba" in names:
        kinds["mamba"] = (mamba2_block(facts, width(facts, "mamba_expand")),)
    else:
        facts.ignore(*(key for key in facts.data if key.startswith("mamba_")))
    ignore_mamba(facts)
    if len(kinds) == 1 and "full" in kinds:
        return uniform(facts, layers, *kinds["full"])
    return Layout(kinds=kinds, layers=names)


@family("falcon_h1")
def falcon_h1(facts: Facts) -> Layout:
    """Falcon H1: attention and Mamba 2 side by side in every layer."""
    layers = layer_count(facts)
    channels = facts.optional("mamba_d_ssm") or width(facts, "mamba_expand")
    ignore_mamba(facts)
    return uniform(facts, layers, full(facts), mamba2_block(facts, channels))


@family("jamba")
def jamba(facts: Facts) -> Layout:
    """Jamba: attention at attn_layer_offset of every attn_layer_period, Mamba on the others."""
    layers = layer_count(facts)
    names = layer_names(facts, "layers_block_type", layers, MAMBA)
    if names is None:
        period = facts.count("period", "attn_layer_period")
        offset = facts.whole("attn_layer_offset", least=0)
        if offset is None and facts.defaults is not None:
            offset = facts.optional("offset", "attn_layer_offset")
        if offset is None or offset >= period:
            facts.refuse(
                f"attn_layer_offset {offset} lies not within {period}", key="attn_layer_offset"
            )
        names = tuple("full" if index % period == offset else "mamba" for index in range(layers))
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        intermediate_size=width(facts, "mamba_expand"),
        state_size=facts.count("state_size", "mamba_d_state"),
        dtype=state_dtype(facts),
    )
    facts.ignore("attn_layer_period", "attn_layer_offset")
    ignore_mamba(facts)
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "mamba": (state,)}
    return Layout(kinds=compact(kinds, names), layers=names)
