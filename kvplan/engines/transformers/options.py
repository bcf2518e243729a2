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
from typing import TypeVar

from kvplan.engines.layout import Provenance
from kvplan.errors import UsageError

DYNAMIC = ("dynamic",)
STATIC = ("static", "sliding_window", "hybrid", "hybrid_chunked")
QUANTIZED = ("quantized",)
PAGED = ("paged",)
OFFLOADED = ("offloaded", "offloaded_static", "offloaded_hybrid", "offloaded_hybrid_chunked")

_T = TypeVar("_T")


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


class _Reader:
    """Takes options one by one, so that what is left over was never asked for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.left = {key.replace("-", "_").lstrip("_"): value for key, value in options.items()}
        self.applied: list[Provenance] = []

    def take(
        self, name: str, read: Callable[[str, str], _T], default: _T, origin: str | None = None
    ) -> _T:
        text = self.left.pop(name, None)
        if text is not None:
            return read(name, text)
        if origin:
            self.applied.append(Provenance(name, str(default), origin))
        return default


def split_args(text: str) -> dict[str, str]:
    """Arguments as `nbits=2 q_group_size=128`, or with dashes in front, as options.

    Raises:
        UsageError: a word that gives no value.
    """
    options = {}
    for word in text.replace(",", " ").split():
        name, given, value = word.lstrip("-").partition("=")
        if not given or not name:
            raise UsageError(
                f"transformers argument {word!r} gives no value", hint="write NAME=VALUE"
            )
        options[name.replace("-", "_")] = value
    return options


def read_options(options: Mapping[str, str]) -> Options:
    """Read an engine's options.

    Raises:
        UsageError: an option that transformers does not know, or a value it cannot take.
    """
    reader = _Reader(options)
    implementation = reader.take("cache_implementation", _text, "dynamic", "generate()'s default")
    kind = _kind(implementation)
    prefill = reader.take("prefill", _natural, None)
    chunk = reader.take("prefill_chunk_size", _positive, None)
    max_cache_len = reader.take("max_cache_len", _positive, None)
    with_config = reader.take("config", _config, True)
    given = tuple(name for name in _GROUP_WISE if name in reader.left)
    origin = "QuantizedCache's default" if kind == "quantized" else None
    quantization = Quantization(
        backend=reader.take("backend", _text, "quanto", origin),
        nbits=reader.take("nbits", _positive, 4),
        axis_key=reader.take("axis_key", _integer, 0),
        axis_value=reader.take("axis_value", _integer, 0),
        q_group_size=reader.take("q_group_size", _positive, 64),
        residual_length=reader.take("residual_length", _natural, 128),
        group_wise_given=given,
    )
    if kind == "quantized" and quantization.backend != "fp8":
        reader.applied += [
            Provenance(name, str(getattr(quantization, name)), "QuantizedCache's default")
            for name in _GROUP_WISE
            if name not in given
        ]
    paged = "ContinuousBatchingConfig's default" if kind == "paged" else None
    paging = Paging(
        page_size=reader.take("page_size", _positive, 256, paged),
        num_blocks=reader.take("num_blocks", _positive, None),
        max_memory_percent=reader.take("max_memory_percent", _fraction, None),
        max_batch_tokens=reader.take("max_batch_tokens", _positive, 8192),
        max_requests_per_batch=reader.take("max_requests_per_batch", _positive, 1024),
        max_blocks_per_request=reader.take("max_blocks_per_request", _natural, 32),
        use_async_batching=reader.take("use_async_batching", _boolean, False),
        return_logprobs=reader.take("return_logprobs", _boolean, False),
        flash_attention=reader.take("attn_implementation", _text, "flash").startswith("flash"),
        logits_to_keep=reader.take("logits_to_keep", _boolean, True),
    )
    if reader.left:
        raise UsageError(f"transformers has no cache option {sorted(reader.left)[0]!r}")
    return Options(
        kind=kind,
        prefill=prefill,
        chunk=chunk,
        max_cache_len=max_cache_len,
        with_config=with_config,
        quantization=quantization,
        paging=paging,
        provenance=tuple(reader.applied),
    )


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


def _text(name: str, text: str) -> str:
    return str(text).strip()


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}, not a whole number") from None


def _natural(name: str, text: str) -> int:
    value = _integer(name, text)
    if value < 0:
        raise UsageError(f"{name} is {value}, it must not be negative")
    return value


def _positive(name: str, text: str) -> int:
    value = _integer(name, text)
    if value < 1:
        raise UsageError(f"{name} is {value}, it must be at least 1")
    return value


def _fraction(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}, not a number") from None
    if not 0 < value <= 1:
        raise UsageError(f"{name} is {text}, it must be above 0 and at most 1")
    return value


def _boolean(name: str, text: str) -> bool:
    value = str(text).strip().lower()
    if value not in ("true", "false"):
        raise UsageError(f"{name} is {text!r}, not true or false")
    return value == "true"


def _config(name: str, text: str) -> bool:
    if str(text).strip().lower() != "none":
        raise UsageError(f"{name} is {text!r}", hint="config=none is a DynamicCache() without one")
    return False
