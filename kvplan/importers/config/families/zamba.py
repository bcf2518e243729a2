"""Zamba: Mamba on every layer, and one attention block that several layers share.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.linear import state_dtype
from kvplan.importers.config.families.mamba import MAMBA, ignore_mamba, width
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    kv_heads,
    layer_count,
    layer_names,
)
from kvplan.spec.recurrent import Mamba1, Mamba2
from kvplan.spec.states import FullAttention, State


@family("zamba2")
def zamba2(facts: Facts) -> Layout:
    """Zamba2: Mamba 2 everywhere; hybrid layers run a shared attention block of twice the width."""
    layers = layer_count(facts)
    names = _zamba_layers(facts, layers)
    channels = width(facts, "mamba_expand")
    heads = facts.count("mamba_heads", "n_mamba_heads")
    given = facts.optional("mamba_head_dim", "mamba_headdim")
    if channels % heads or (given is not None and given * heads != channels):
        facts.refuse(
            f"n_mamba_heads {heads} does not divide {channels} channels", key="n_mamba_heads"
        )
    state = Mamba2(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        num_heads=heads,
        head_dim=channels // heads,
        state_size=facts.count("state_size", "mamba_d_state"),
        n_groups=facts.count("n_groups", "mamba_ngroups"),
        dtype=state_dtype(facts),
    )
    return _zamba_layout(facts, names, state)


@family("zamba")
def zamba(facts: Facts) -> Layout:
    """Zamba: as Zamba2, with Mamba 1."""
    layers = layer_count(facts)
    names = _zamba_layers(facts, layers)
    if facts.optional("mamba_heads", "n_mamba_heads") is None:
        facts.refuse("n_mamba_heads is missing")
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        intermediate_size=width(facts, "mamba_expand"),
        state_size=facts.count("state_size", "mamba_d_state"),
        dtype=state_dtype(facts),
    )
    facts.ignore("attn_layer_period", "attn_layer_offset")
    return _zamba_layout(facts, names, state)


def _zamba_layers(facts: Facts, layers: int) -> tuple[str, ...]:
    names = layer_names(facts, "layers_block_type", layers, MAMBA)
    if names is None:
        chosen = facts.wholes("hybrid_layer_ids")
        if chosen is None:
            chosen = _zamba_defaults(facts, layers)
        names = tuple("hybrid" if index in set(chosen) else "mamba" for index in range(layers))
    facts.ignore("hybrid_layer_ids")
    return names


def _zamba_defaults(facts: Facts, layers: int) -> list[int]:
    """The hybrid layers that the classes fix."""
    source = facts.defaults.source if facts.defaults else ""
    if facts.model_type == "zamba":
        period = facts.count("period", "attn_layer_period")
        offset = facts.count("offset", "attn_layer_offset")
        chosen = [2, *(i for i in range(3, layers) if (i - 3) % period == offset)]
    elif layers == 54:
        chosen = [6, 12, 18, 24, 30, 36, 42, 47, 51]
    else:
        facts.refuse("neither layers_block_type nor hybrid_layer_ids says which layers attend")
    facts.note("layers by kind", f"{len(chosen)} hybrid", f"class default ({source})")
    return chosen


def _zamba_layout(facts: Facts, names: tuple[str, ...], state: State) -> Layout:
    heads = facts.count("heads", "num_attention_heads")
    dim = facts.optional("head_dim", "attention_head_dim")
    if dim is None:
        hidden = facts.count("hidden_size")
        if 2 * hidden % heads:
            facts.refuse(f"2 x hidden_size {hidden} is no multiple of {heads} heads")
        dim = int(facts.derive("head_dim", 2 * hidden // heads, f"2 x {hidden} / {heads} heads"))
    facts.ignore("kv_channels", "num_query_groups", "attention_hidden_size")
    facts.ignore("use_shared_attention_adapter", "use_shared_mlp_adapter")
    ignore_mamba(facts)
    attention = FullAttention(kv_heads=kv_heads(facts, heads, "num_key_value_heads"), head_dim=dim)
    kinds: dict[str, tuple[State, ...]] = {"mamba": (state,), "hybrid": (attention, state)}
    return Layout(kinds=compact(kinds, names), layers=names)
