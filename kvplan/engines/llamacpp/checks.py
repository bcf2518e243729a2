"""What llama.cpp refuses before, or dies of while, it makes a context.

    quantised V   needs flash attention: without it V is transposed
    packed rows   blocks of 32 divide every head of K, with flash attention of V too; a latent
                  counts with the value length of its heads, although its V is not stored. Without
                  flash attention the graph dies when it cuts a row of K
    latents       K and V have one format
    streams       a graph that cannot be cut into that many dies on an assertion

Source: llama.cpp b11434, src/llama-context.cpp llama_init_from_model.
"""

from __future__ import annotations

from kvplan.dtypes import DType
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.llamacpp.caches import Formats
from kvplan.engines.llamacpp.context import Context
from kvplan.engines.llamacpp.families import reads_drafts, splits_into, value_length
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec

Layers = list[tuple[kept.State, ...]]


def check_formats(spec: ModelSpec, layers: Layers, formats: Formats) -> None:
    """Formats that the layers can be stored in.

    Raises:
        Refused: they cannot.
    """
    k, v = formats.k, formats.v
    heads = [state for states in layers for state in states if isinstance(state, kept.HeadState)]
    latents = [
        state
        for states in layers
        for state in states
        if isinstance(state, (kept.LatentAttention, kept.CompressedLatent))
    ]
    if latents and k.name != v.name:
        raise Refused(
            "k-and-v-types-differ",
            "runtime_error",
            f"K and V of a latent are one vector: {k.name} and {v.name} cannot both hold it",
            type_k=k.name,
            type_v=v.name,
        )
    if not formats.flash and v.block_elements > 1:
        raise Refused(
            "quantised-v-without-flash-attention",
            "runtime_error",
            f"V in {v.name} needs flash attention; turn it on, or keep V in f16",
            type_v=v.name,
        )
    dims = [(state.head_dim, state.value_dim) for state in heads]
    dims += [
        (state.kv_lora_rank + state.qk_rope_head_dim, value_length(spec, state))
        for state in latents
        if isinstance(state, kept.LatentAttention)
    ]
    for key, value in dict.fromkeys(dims):
        if formats.flash:
            _check_block(spec, k, key, "K")
            _check_block(spec, v, value, "V")
        elif key % k.block_elements:
            raise Refused(
                "block-does-not-divide-row",
                "GGML_ASSERT",
                f"without flash attention the graph cuts rows of K at heads of {key} elements, and"
                f" {k.name} stores blocks of {k.block_elements}",
                block=k.block_elements,
                head_dim=key,
            )


def _check_block(spec: ModelSpec, dtype: DType, dim: int, side: str) -> None:
    if dim % dtype.block_elements:
        raise Refused(
            "block-does-not-divide-head",
            "runtime_error",
            f"{dtype.name} stores blocks of {dtype.block_elements}, which do not divide the {dim}"
            f" elements of a head of {side} in {spec.name}",
            block=dtype.block_elements,
            head_dim=dim,
        )


def check_draft(spec: ModelSpec) -> None:
    """Draft layers whose tensors the graph reads.

    Raises:
        Refused: it does not.
    """
    if not reads_drafts(spec):
        raise Refused(
            "draft-layout-not-supported",
            "runtime_error",
            f"the draft layers of {spec.name} have separate K, Q and V, which no graph reads",
        )


def check_streams(spec: ModelSpec, context: Context) -> None:
    """Sequences that the graph can be cut into.

    Raises:
        Refused: it cannot.
    """
    if not splits_into(spec, context.streams, context.n_ubatch):
        raise Refused(
            "graph-assertion",
            "GGML_ASSERT",
            f"the graph of {spec.name} cannot be split into {context.streams} streams; --kv-unified"
            " keeps one",
            streams=context.streams,
        )
