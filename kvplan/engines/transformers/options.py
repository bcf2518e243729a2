"""The options of a transformers cache by the library's own names, read into one frozen record.

From GenerationConfig: cache_implementation, max_cache_len, prefill_chunk_size. From its
cache_config: backend, nbits, axis_key, axis_value, q_group_size, residual_length. From
ContinuousBatchingConfig: page_size, num_blocks, max_memory_percent, max_batch_tokens, ... Two are
kvplan's: `prefill`, the tokens of the prompt (the rest is decoded one by one; all of ctx when not
given), and `config=none`, a `DynamicCache()` built without the model's config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.engines.kit import argline
from kvplan.engines.kit.flags import Flag
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import boolean, natural, positive, share
from kvplan.engines.kit.words import split_words
from kvplan.engines.layout import Provenance
from kvplan.errors import UsageError

DYNAMIC = ("dynamic",)
STATIC = ("static", "sliding_window", "hybrid", "hybrid_chunked")
QUANTIZED = ("quantized",)
PAGED = ("paged",)
OFFLOADED = ("offloaded", "offloaded_static", "offloaded_hybrid", "offloaded_hybrid_chunked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Arguments of QuantizedCache; None where the backend has no such argument."""

    backend: str = "quanto"
    nbits: int = 4
    axis_key: int = 0
    axis_value: int = 0
    q_group_size: int = 64
    residual_length: int = 128
    group_wise_given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Arguments of ContinuousBatchingConfig that size the paged cache."""

    page_size: int = 256
    num_blocks: int | None = None
    max_memory_percent: float | None = None
    max_batch_tokens: int = 8192
    max_requests_per_batch: int = 1024
    max_blocks_per_request: int = 32
    use_async_batching: bool = False
    return_logprobs: bool = False
    flash_attention: bool = True
    logits_to_keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the options say, with the defaults that were applied."""

    kind: str
    prefill: int | None = None
    chunk: int | None = None
    max_cache_len: int | None = None
    with_config: bool = True
    quantization: Quantization = Quantization()
    paging: Paging = Paging()
    provenance: tuple[Provenance, ...] = ()


_GROUP_WISE = ("nbits", "axis_key", "axis_value", "q_group_size", "residual_length")


def _no_config(text: str) -> bool:
    """`config=none` is a DynamicCache() without one; nothing else can be written."""
    if text.strip().lower() != "none":
        raise ValueError(text)
    return False


def _word(text: str) -> str:
    return text.strip()


def _row(name: str, read: Callable[[str], Any], default: Any, origin: str) -> Flag:
    spelling = f"--{name.replace('_', '-')}"
    return Flag(name=name, spellings=(spelling,), read=read, default=default, origin=origin)


_GENERATION, _QUANTIZED = "GenerationConfig", "QuantizedCache"
_BATCHING = "ContinuousBatchingConfig"

TABLE = Table(
    engine="transformers",
    flags=(
        _row("cache_implementation", _word, "dynamic", "generate()"),
        _row("prefill", natural, None, "kvplan: tokens of the prompt"),
        _row("prefill_chunk_size", positive, None, _GENERATION),
        _row("max_cache_len", positive, None, _GENERATION),
        _row("config", _no_config, True, "kvplan: DynamicCache() without the model's config"),
        _row("backend", _word, "quanto", _QUANTIZED),
        _row("nbits", positive, 4, _QUANTIZED),
        _row("axis_key", int, 0, _QUANTIZED),
        _row("axis_value", int, 0, _QUANTIZED),
        _row("q_group_size", positive, 64, _QUANTIZED),
        _row("residual_length", natural, 128, _QUANTIZED),
        _row("page_size", positive, 256, _BATCHING),
        _row("num_blocks", positive, None, _BATCHING),
        _row("max_memory_percent", share, None, _BATCHING),
        _row("max_batch_tokens", positive, 8192, _BATCHING),
        _row("max_requests_per_batch", positive, 1024, _BATCHING),
        _row("max_blocks_per_request", natural, 32, _BATCHING),
        _row("use_async_batching", boolean, False, _BATCHING),
        _row("return_logprobs", boolean, False, _BATCHING),
        _row("attn_implementation", _word, "flash", "from_pretrained()"),
        _row("logits_to_keep", boolean, True, "kvplan: the class takes logits_to_keep"),
    ),
    abbreviates=False,
    opposites=False,
    help="docs/engines/transformers.md lists the options of its caches",
)


def split_args(text: str) -> dict[str, str]:
    """Arguments as `nbits=2 q_group_size=128`, or with dashes in front, as options.

    Raises:
        UsageError: a word that gives no value, or an option that transformers does not know.
    """
    words = []
    for word in split_words(text.replace(",", " ")):
        name, given, _ = word.text.lstrip("-").partition("=")
        if not given or not name:
            raise UsageError(
                f"transformers argument {word.text!r} gives no value", hint="write NAME=VALUE"
            )
        words.append(word._replace(text=f"--{word.text.lstrip('-')}"))
    return argline.options(TABLE, argline.parse(TABLE, words))


def read_options(options: Mapping[str, str]) -> Options:
    """Read an engine's options.

    Raises:
        UsageError: an option that transformers does not know, or a value it cannot take.
    """
    values = TABLE.values({name.lstrip("_"): text for name, text in options.items()})

    def value(name: str) -> Any:
        return values.get(name, TABLE.by_name[name].default)

    kind = _kind(value("cache_implementation"))
    quantization = Quantization(
        **{name: value(name) for name in ("backend", *_GROUP_WISE)},
        group_wise_given=tuple(name for name in _GROUP_WISE if name in values),
    )
    paging = Paging(
        **{name: value(name) for name in _PAGING},
        flash_attention=value("attn_implementation").startswith("flash"),
    )
    return Options(
        kind=kind,
        prefill=value("prefill"),
        chunk=value("prefill_chunk_size"),
        max_cache_len=value("max_cache_len"),
        with_config=value("config"),
        quantization=quantization,
        paging=paging,
        provenance=tuple(
            Provenance(name, str(value(name)), f"{TABLE.by_name[name].origin}'s default")
            for name in _applied(kind, quantization.backend)
            if name not in values
        ),
    )


_PAGING = (
    "page_size", "num_blocks", "max_memory_percent", "max_batch_tokens", "max_requests_per_batch",
    "max_blocks_per_request", "use_async_batching", "return_logprobs", "logits_to_keep",
)  # fmt: skip


def _applied(kind: str, backend: str) -> tuple[str, ...]:
    """Options whose defaults the answer names."""
    if kind == "paged":
        return "cache_implementation", "page_size"
    if kind == "quantized":
        return ("cache_implementation", "backend", *(_GROUP_WISE if backend != "fp8" else ()))
    return ("cache_implementation",)


def _kind(implementation: str) -> str:
    for kind, names in (
        ("dynamic", DYNAMIC),
        ("static", STATIC),
        ("quantized", QUANTIZED),
        ("paged", PAGED),
    ):
        if implementation in names:
            return kind
    if implementation in OFFLOADED:
        raise UsageError(
            f"cache_implementation {implementation!r} moves layers to the host; it is not modelled"
        )
    raise UsageError(
        f"cache_implementation {implementation!r} is not one of transformers",
        hint="one of " + ", ".join((*DYNAMIC, *STATIC, *QUANTIZED, *PAGED)),
    )
