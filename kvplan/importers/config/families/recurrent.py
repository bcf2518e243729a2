"""Recurrences that are neither Mamba nor a delta rule: RG-LRU and RWKV.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.linear import state_dtype
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    head_dim,
    kv_heads,
    layer_count,
    sliding,
)
from kvplan.importers.config.plain import uniform
from kvplan.spec.recurrent import GenericRecurrent, LinearRecurrentUnit, Rwkv
from kvplan.spec.states import FullAttention, State


@family("recurrent_gemma")
def recurrent_gemma(facts: Facts) -> Layout:
    """RecurrentGemma: RG-LRU blocks, and windowed attention, in the order of block_types."""
    layers = layer_count(facts)
    words = facts.texts("block_types") or facts.texts("_block_types")
    if words is None:
        words = ["recurrent", "recurrent", "attention"]
        facts.note(
            "layers by kind", words, "class default (transformers 5.24.0 RecurrentGemmaConfig)"
        )
    if not words or any(word not in ("recurrent", "attention") for word in words):
        facts.refuse("block_types is not a list of recurrent and attention", key="block_types")
    names = tuple(
        "sliding" if words[index % len(words)] == "attention" else "recurrent"
        for index in range(layers)
    )
    heads = facts.count("heads")
    window = facts.count("window", "attention_window_size")
    facts.ignore("sliding_window")
    local = FullAttention(kv_heads=kv_heads(facts, heads), head_dim=head_dim(facts, heads))
    unit = LinearRecurrentUnit(
        conv_kernel=facts.count("conv_kernel", "conv1d_width"),
        width=facts.optional("lru_width") or facts.count("hidden_size"),
        dtype=state_dtype(facts),
    )
    kinds: dict[str, tuple[State, ...]] = {
        "sliding": (sliding(local, window),),
        "recurrent": (unit,),
    }
    return Layout(kinds=compact(kinds, names), layers=names)


@family("rwkv")
def rwkv4(facts: Facts) -> Layout:
    """RWKV 4: two shifted activations, and numerator, denominator and maximum per channel."""
    hidden = facts.count("hidden_size")
    channels = facts.optional("attention_hidden_size") or hidden
    facts.ignore("context_length", "rescale_every")
    state = GenericRecurrent(conv_kernel=3, channels=hidden, shape=(3, channels))
    return uniform(facts, layer_count(facts), state)


@family("rwkv5", "rwkv6", "rwkv7")
def rwkv(facts: Facts) -> Layout:
    """RWKV 5 and later: a matrix per head and two shifted activations."""
    state = Rwkv(
        hidden_size=facts.count("hidden_size"),
        head_dim=facts.count("rwkv_head_dim", "head_size", "head_dim"),
        dtype=state_dtype(facts),
    )
    facts.ignore(
        "attention_hidden_size", "num_attention_heads", "head_size_divisor", "context_length"
    )
    facts.ignore("decay_low_rank_dim", "gate_low_rank_dim", "rescale_every")
    return uniform(facts, layer_count(facts), state)
