"""What is asked of an engine: lengths, formats and parallelism, independent of any engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.dtypes import CacheDTypes, DType, parse_dtype
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question about a model's cache.

    Attributes:
        ctx: tokens per sequence; None means the model's maximum.
        batch: sequences held at once.
        dtype: cache format as the user wrote it; `auto` is the model's own.
        dtype_k, dtype_v: formats of K and V where they differ from `dtype`.
        encoder_tokens: tokens of cross attention; None means what the model fixes, else `ctx`.
        with_draft: count the layers of multi-token prediction too.
        tp, pp, dp, dcp: ranks of tensor, pipeline, data and decode context parallelism.
        options: an engine's own flags by their own names, without dashes in front.
    """

    ctx: int | None = None
    batch: int = 1
    dtype: str = "auto"
    dtype_k: str | None = None
    dtype_v: str | None = None
    encoder_tokens: int | None = None
    with_draft: bool = False
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    options: Mapping[str, str] = field(default_factory=dict)


def context_of(spec: ModelSpec, request: Request) -> int:
    """Tokens per sequence: the request's, else the model's maximum.

    Raises:
        UsageError: neither says.
    """
    if request.ctx is not None:
        return request.ctx
    if spec.max_context is None:
        raise UsageError(
            f"{spec.name} does not say how long its context is",
            hint="give --ctx, or write max_context in the spec",
        )
    return spec.max_context


def encoder_tokens_of(spec: ModelSpec, request: Request) -> int:
    """Tokens that cross attention keeps: the request's, else the model's, else the context."""
    return request.encoder_tokens or spec.encoder_tokens or context_of(spec, request)


def model_dtype(spec: ModelSpec) -> DType | None:
    """The model's own format, None when its config does not say."""
    return parse_dtype(spec.dtype, "dtype") if spec.dtype else None


def cache_dtypes(spec: ModelSpec, request: Request) -> CacheDTypes:
    """The formats of K, V and of states that follow the model.

    `auto` is the format the checkpoint declares for its cache, else the model's own.

    Raises:
        UsageError: a format is asked for or needed that nothing names.
    """
    model = model_dtype(spec)

    def chosen(text: str, what: str) -> DType:
        if text.strip().lower() != "auto":
            return parse_dtype(text, what)
        if spec.kv_dtype:
            return parse_dtype(spec.kv_dtype, "kv_dtype")
        if model is None:
            raise UsageError(
                f"{spec.name} does not say which format it runs in",
                hint="give --dtype (bf16, fp16, fp8, ...), or write dtype in the spec",
            )
        return model

    k = chosen(request.dtype_k or request.dtype, "--dtype-k" if request.dtype_k else "--dtype")
    v = chosen(request.dtype_v or request.dtype, "--dtype-v" if request.dtype_v else "--dtype")
    # A cache option is the best evidence left of the model's own format when the spec is silent;
    # only states that follow the model would use it, and a plain 16- or 32-bit format is needed.
    own = model or (k if k.name in ("bfloat16", "float16", "float32") else None)
    if own is None:
        follows = any(getattr(state, "conv_elements", 0) for state in spec.states())
        if follows:
            raise UsageError(
                f"{spec.name} does not say which format it runs in, and its convolution states follow it",
                hint="write dtype in the spec",
            )
        own = k
    return CacheDTypes(k, v, own)
