"""The short label of a model's attention: `gqa+sliding`, `mla+sparse-indexer(DSA)`, ...

First what a KV head is shared by (mha: one query head; gqa: several; mqa: all; mla: a latent), then
every other mechanism that shapes the cache, in a fixed order.
"""

from __future__ import annotations

from kvplan.spec.model import ModelSpec
from kvplan.spec.states import (
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SharedCache,
    State,
)

_FIRST = ("compressed-kv", "sliding", "chunked")  # before the recurrent traits, in this order


def attention_label(spec: ModelSpec) -> str:
    """The label of a model, such as `gqa+hybrid-mamba`."""
    layers = [states for _, states, _ in spec.counted_kinds()]
    found = [state for states in layers for state in states if not isinstance(state, SharedCache)]
    if not found:
        return "none"
    base = _base(spec, found)
    if base is None:
        return "attention-free"
    parts = [base]
    indexed = any(isinstance(state, Indexer) for state in found)
    if indexed:
        parts.append("sparse-blocks" if base in ("gqa", "mha") else "sparse-indexer(DSA)")
    traits = dict.fromkeys(state.trait for state in found if state.trait)
    parts += [trait for trait in _FIRST if trait in traits]
    parts += [trait for trait in traits if trait not in _FIRST]
    if any(isinstance(state, CrossAttention) for state in found):
        # An encoder's output is attended beside the decoder's own cache, an image instead of it.
        beside = any(
            isinstance(state, CrossAttention) and len(states) > 1
            for states in layers
            for state in states
        )
        parts.append("encoder-decoder" if beside else "cross-attention")
    return "+".join(parts)


def _base(spec: ModelSpec, found: list[State]) -> str | None:
    if any(isinstance(state, LatentAttention) for state in found):
        return "mla"
    if any(isinstance(state, CompressedLatent) for state in found):
        return "mqa"  # one shared vector for all query heads
    shares = set()
    for state in found:
        if isinstance(state, HeadState):
            heads = state.heads or spec.heads
            if state.kv_heads == 1 and heads != 1:
                shares.add("mqa")
            elif heads is None:
                shares.add("mha/gqa")  # the spec does not say how many query heads share one
            else:
                shares.add("mha" if heads == state.kv_heads else "gqa")
    if not shares:
        return None
    return shares.pop() if len(shares) == 1 else "gqa"
