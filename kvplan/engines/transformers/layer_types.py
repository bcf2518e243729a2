"""What transformers calls each layer (`layer_types`), and what it refuses because of it.

The words of a refusal are the library's own, the exception's name in front as Python prints it.
"""

from __future__ import annotations

from kvplan.engines.transformers.attention import window_of
from kvplan.engines.transformers.families import Family
from kvplan.engines.transformers.options import Quantization
from kvplan.engines.transformers.versions import Rules
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import LightningAttention, RecurrentState, ShortConvolution
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    State,
)


def layer_type(states: tuple[State, ...], family: Family, *, indexed_model: bool) -> str:
    """The layer type of a layer that keeps `states`."""
    attention = [s for s in states if isinstance(s, HeadState | LatentAttention)]
    compressed = next((s for s in states if isinstance(s, CompressedLatent)), None)
    indexer = any(isinstance(s, Indexer) for s in states)
    recurrent = next((s for s in states if isinstance(s, RecurrentState)), None)
    if compressed is not None:
        if compressed.ratio is None:
            return "sliding_attention"
        return "compressed_sparse_attention" if indexer else "heavily_compressed_attention"
    if recurrent is not None and not attention:
        return "conv" if isinstance(recurrent, ShortConvolution) else "linear_attention"
    if not attention:
        return "dummy"  # keeps nothing, or reads an earlier layer's cache
    first = attention[0]
    sliding = isinstance(first, HeadState) and window_of(first, family) is not None
    if recurrent is not None:
        return "hybrid_sliding" if sliding else "hybrid"
    if isinstance(first, LatentAttention):
        return "indexed_attention" if indexed_model else "full_attention"
    if indexer:
        return "minimax_m3_sparse"
    if isinstance(first, CrossAttention) or not sliding:
        return "full_attention"
    return "chunked_attention" if isinstance(first, ChunkedAttention) else "sliding_attention"


def layer_types(spec: ModelSpec, family: Family) -> dict[str, str]:
    """Kind name -> layer type, for the kinds in use in order of first use."""
    kinds = {name: states for name, states, _ in spec.counted_kinds()}
    indexed = is_indexed(spec)
    return {
        name: layer_type(states, family, indexed_model=indexed) for name, states in kinds.items()
    }


def is_indexed(spec: ModelSpec) -> bool:
    """True for a latent model with an indexer somewhere: all its layers are indexed ones."""
    return any(
        any(isinstance(s, Indexer) for s in states)
        and any(isinstance(s, LatentAttention) for s in states)
        for _, states, _ in spec.counted_kinds()
    )


def quantized_refusal(
    types: dict[str, str], quantization: Quantization, rules: Rules
) -> str | None:
    """Why QuantizedCache would not be built, else None."""
    backend, nbits = quantization.backend, quantization.nbits
    known = ("quanto", "hqq") if rules.legacy else ("quanto", "hqq", "fp8")
    if backend not in known:
        return f"ValueError: Unknown quantization backend `{backend}`"
    if backend == "fp8" and quantization.group_wise_given:
        return (
            "ValueError: The `fp8` backend quantizes per-tensor and does not support "
            f"{list(quantization.group_wise_given)}. Use the `quanto` or `hqq` backend to quantize "
            "group-wise."
        )
    invalid = ", ".join(map(repr, sorted(set(types.values()) - {"full_attention"})))
    if invalid and not rules.legacy:
        return (
            "ValueError: `QuantizedCache` is only supported for models with only full attention "
            f"layers. We found the following invalid layer types: {{{invalid}}}"
        )
    bits, axes = {"quanto": ((2, 4), (0, -1)), "hqq": ((1, 2, 3, 4, 8), (0, 1))}.get(
        backend, ((nbits,), (quantization.axis_key, quantization.axis_value))
    )
    name = "HQQ" if backend == "hqq" else backend
    if nbits not in bits:
        listed = ", ".join(f"`{bit}`" for bit in bits)
        return (
            f"ValueError: `nbits` for `{name}` backend has to be one of [{listed}] but got {nbits}"
        )
    for option in ("axis_key", "axis_value"):
        if (value := getattr(quantization, option)) not in axes:
            listed = ", ".join(f"`{axis}`" for axis in axes)
            return (
                f"ValueError: `{option}` for `{name}` backend has to be one of [{listed}] "
                f"but got {value}"
            )
    return None


def static_refusal(types: dict[str, str]) -> str | None:
    """Why StaticCache would not be built, else None: V4's layers have no static counterpart."""
    missing = [
        t for t in types.values() if t.endswith("compressed_attention") or "_sparse_att" in t
    ]
    return f"KeyError: {missing[0]!r}" if missing else None


# What a layer of its own class calls on its cache layer, and a plain one lacks.
_OWN_METHOD = {
    "minimax_m3_sparse": "update_index",
    "compressed_sparse_attention": "store_compression_weights",
    "heavily_compressed_attention": "store_compression_weights",
}


def no_config_refusal(spec: ModelSpec, types: dict[str, str]) -> str | None:
    """Why a DynamicCache() without a config fails in the first forward pass, else None."""
    for index, name in enumerate(spec.layers):
        states = spec.kinds[name]
        recurrent = [s for s in states if isinstance(s, RecurrentState)]
        if recurrent and not isinstance(recurrent[0], LightningAttention):
            return "IndexError: list index out of range"
        wanted = _OWN_METHOD.get(types[name])
        if wanted is not None:
            return f"AttributeError: 'DynamicLayer' object has no attribute '{wanted}'"
        if types[name] == "indexed_attention" and any(isinstance(s, Indexer) for s in states):
            return (
                f"ValueError: Cannot call `update_indexer` on layer {index} which is a "
                "DynamicLayer; it has no indexer key cache (expected a `DynamicIndexedLayer` or "
                "`StaticIndexedLayer`)."
            )
    return None
