"""What transformers calls each layer (`layer_types`), and what it refuses because of it."""

from __future__ import annotations

from kvplan.engines.kit.refusal import Refusal
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
) -> Refusal | None:
    """Why QuantizedCache would not be built, else None."""
    backend, nbits = quantization.backend, quantization.nbits
    known = ("quanto", "hqq") if rules.legacy else ("quanto", "hqq", "fp8")
    if backend not in known:
        return Refusal(
            code="quantization-unknown",
            exception="ValueError",
            message=f"transformers {rules.version} has no quantised cache {backend!r}; there are "
            f"{', '.join(known)}",
            figures={"backend": backend, "known": list(known)},
        )
    if backend == "fp8" and quantization.group_wise_given:
        options = list(quantization.group_wise_given)
        return Refusal(
            code="quantization-option",
            exception="ValueError",
            message=f"fp8 has one scale per tensor and no groups; leave out {', '.join(options)}, "
            "or quantise with quanto or hqq",
            figures={"backend": backend, "options": options},
        )
    others = sorted(set(types.values()) - {"full_attention"})
    if others and not rules.legacy:
        return Refusal(
            code="layer-kind-unsupported",
            exception="ValueError",
            message="a quantised cache takes full attention only, and this model has layers of "
            f"{', '.join(others)}",
            figures={"kinds": others},
        )
    bits, axes = {"quanto": ((2, 4), (0, -1)), "hqq": ((1, 2, 3, 4, 8), (0, 1))}.get(
        backend, ((nbits,), (quantization.axis_key, quantization.axis_value))
    )
    if nbits not in bits:
        return _not_taken(backend, "nbits", nbits, bits)
    for option in ("axis_key", "axis_value"):
        if (value := getattr(quantization, option)) not in axes:
            return _not_taken(backend, option, value, axes)
    return None


def _not_taken(backend: str, option: str, value: int, known: tuple[int, ...]) -> Refusal:
    return Refusal(
        code="quantization-option",
        exception="ValueError",
        message=f"{backend} does not take {option} {value}; it takes {', '.join(map(str, known))}",
        figures={"backend": backend, "option": option, "value": value, "known": list(known)},
    )


def static_refusal(types: dict[str, str]) -> Refusal | None:
    """Why StaticCache would not be built, else None: V4's layers have no static counterpart."""
    missing = [
        t for t in types.values() if t.endswith("compressed_attention") or "_sparse_att" in t
    ]
    if not missing:
        return None
    return Refusal(
        code="layer-kind-unsupported",
        exception="KeyError",
        message=f"a static cache has no layer for {missing[0]}; use the dynamic one",
        figures={"kinds": missing},
    )


# Kinds whose layers call methods on their cache layer that a plain one lacks.
_OWN_CLASS = ("minimax_m3_sparse", "compressed_sparse_attention", "heavily_compressed_attention")


def no_config_refusal(spec: ModelSpec, types: dict[str, str]) -> Refusal | None:
    """Why a DynamicCache() without a config fails in the first forward pass, else None."""
    for index, name in enumerate(spec.layers):
        states = spec.kinds[name]
        recurrent = [s for s in states if isinstance(s, RecurrentState)]
        if recurrent and not isinstance(recurrent[0], LightningAttention):
            return _needs_config("IndexError", index, types[name])
        if types[name] in _OWN_CLASS:
            return _needs_config("AttributeError", index, types[name])
        if types[name] == "indexed_attention" and any(isinstance(s, Indexer) for s in states):
            return _needs_config("ValueError", index, types[name])
    return None


def _needs_config(exception: str, layer: int, kind: str) -> Refusal:
    return Refusal(
        code="cache-needs-config",
        exception=exception,
        message=f"layer {layer} ({kind}) needs a cache layer of its own, which only "
        "DynamicCache(config=...) makes",
        figures={"layer": layer, "kind": kind},
    )
