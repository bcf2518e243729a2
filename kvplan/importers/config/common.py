"""Facts every model has beside its layers: names, context, rope, formats of weights and cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.dtypes import find_dtype
from kvplan.importers.config.aliases import CONTEXT_KEYS, DTYPE_KEYS
from kvplan.importers.config.facts import Facts
from kvplan.importers.imported import Origin
from kvplan.spec.model import Rope

# kv_cache_quant_algo of TensorRT Model Optimizer -> format.
_ALGORITHMS = {"FP8": "fp8_e4m3", "INT8": "int8", "NVFP4": "nvfp4", "INT4": "int4"}
# (type, num_bits) of a compressed-tensors kv_cache_scheme -> format.
_SCHEMES = {
    ("float", 8): "fp8_e4m3",
    ("int", 8): "int8",
    ("int", 4): "int4",
    ("float", 4): "nvfp4",
}


def max_context(facts: Facts) -> int | None:
    """The smallest bound on positions that the text config gives, else the class's."""
    found = {key: value for key in CONTEXT_KEYS if (value := facts.whole(key)) is not None}
    if facts.model_type in ("cohere", "cohere2") and "model_max_length" in found:
        key = "model_max_length"  # Command R: the model is longer than its position table
    elif found:
        key = min(found, key=lambda name: found[name])
    else:
        return facts.optional("max_context", "max_position_embeddings", "n_ctx", "context_length")
    facts.note("max_context", found[key], facts.origin(key))
    return found[key]


def rope(facts: Facts) -> Rope | None:
    """The rotary scaling, None without any; of several, the one of the full-attention layers."""
    key = next((name for name in ("rope_parameters", "rope_scaling") if facts.has(name)), None)
    facts.ignore("rope_parameters", "rope_scaling")
    found = facts.inner(key) if key else None
    if key is None or found is None:
        return None
    if isinstance(found.get("full_attention"), Mapping):
        found = found["full_attention"]
        key += ".full_attention"
    type_ = found.get("rope_type", found.get("type"))
    if type_ is not None and not isinstance(type_, str):
        facts.refuse(f"{key}: the type is {type_!r}, it must be a text", key=key)
    if type_ is None or type_ == "default":
        return None
    facts.ignore("original_max_position_embeddings")
    context = _number(facts, found, key, "original_max_position_embeddings")
    if context is None and type_ in ("longrope", "su"):  # `su` is longrope's old name
        context = facts.whole("original_max_position_embeddings")
    scaling = Rope(
        type=type_,
        factor=_number(facts, found, key, "factor"),
        original_max_context=int(context) if context and context >= 1 else None,
    )
    facts.note("rope", type_, facts.origin(key))
    return scaling


def _number(facts: Facts, found: Mapping[str, Any], key: str, name: str) -> float | None:
    """A finite number of a size that a config can mean, None if absent or null."""
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**40:
        facts.refuse(f"{key}.{name} is {value!r}, it must be a number", key=key)
    return float(value)


def image_attention(facts: Facts) -> str | None:
    """`bidirectional` where the config says that image tokens see each other both ways."""
    if facts.take("use_bidirectional_attention") != "vision":
        return None
    facts.note("image_attention", "bidirectional", facts.origin("use_bidirectional_attention"))
    return "bidirectional"


def text_attention(facts: Facts) -> str | None:
    """`bidirectional` where is_causal: false makes a decoder an embedding model (gte-Qwen2)."""
    if facts.flag("is_causal", default=True):
        return None
    facts.note("text_attention", "bidirectional", facts.origin("is_causal"))
    return "bidirectional"


def dtype(facts: Facts, root: Facts) -> str | None:
    """The model's own format: the text config's, else the root's; None if neither says."""
    for book in (facts, root):
        for key in DTYPE_KEYS:
            text = book.text(key)
            if text is None or text == "auto":
                continue
            known = find_dtype(text)
            if known is None:
                book.refuse(f"{key} {text!r} is not a known format", key=key)
            facts.note("dtype", known.name, book.origin(key))
            return known.name
    return None


def quantisation(
    facts: Facts, root: Facts, beside: Mapping[str, Any] | None
) -> tuple[str | None, str | None]:
    """How the weights are quantised, and the format the checkpoint declares for its cache.

    Args:
        beside: the content of an hf_quant_config.json in the same folder.
    """
    method: str | None = None
    cache: str | None = None
    for book in (facts, root) if facts.path else (facts,):
        found = book.take("quantization_config")
        if not isinstance(found, Mapping):
            continue
        if method is None and isinstance(found.get("quant_method"), str):
            method = found["quant_method"]
            facts.note("quant_method", method, book.origin("quantization_config.quant_method"))
        for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
            if cache is None and found.get(key) is not None:
                cache = _cache_format(facts, found[key], book.origin(f"quantization_config.{key}"))
    if cache is None and beside is not None:
        inner = beside.get("quantization")
        algorithm = inner.get("kv_cache_quant_algo") if isinstance(inner, Mapping) else None
        if algorithm is not None:
            where = "hf_quant_config.json quantization.kv_cache_quant_algo"
            cache = _cache_format(facts, algorithm, where)
    return method, cache


def _cache_format(facts: Facts, scheme: Any, origin: Origin | str) -> str | None:
    if isinstance(scheme, Mapping):
        type_, bits = scheme.get("type", "float"), scheme.get("num_bits")
        name = None
        if isinstance(type_, str) and isinstance(bits, int):
            name = _SCHEMES.get((type_, bits))
    else:
        name = _ALGORITHMS.get(str(scheme).upper())
        named = find_dtype(str(scheme)) if name is None else None
        name = named.name if named else name
    if name is None:
        facts.warn(
            "unknown-kv-scheme",
            f"{origin} is {scheme!r}, no known format; the cache is taken to be unquantised",
        )
        return None
    facts.note("kv_dtype", name, origin)
    return name
