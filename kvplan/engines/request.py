"""What is asked of an engine: lengths, formats and parallelism, independent of any engine."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.dtypes import CacheDTypes, DType, parse_dtype
from kvplan.errors import UsageError
from kvplan.record import Record
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import CrossAttention
from kvplan.units import MAX_COUNT

# Far above any deployment: every rank's tensors are listed.
MAX_RANKS = 2**16

# The format of what a model without a cache keeps, when nothing names another.
NO_FORMAT = DType("none", 1, 0, 0, (), "no element is stored")


class Request(Record):
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

    Raises:
        UsageError: a count that is no whole number between 1 and 2^40, or more ranks than 2^16.
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
    options: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        for name in ("ctx", "batch", "encoder_tokens", "tp", "pp", "dp", "dcp"):
            value = getattr(self, name)
            optional = name in ("ctx", "encoder_tokens")
            if value is None and optional:
                continue
            if type(value) is not int or not 1 <= value <= MAX_COUNT:
                raise UsageError(f"{name} {value!r} is not a whole number in 1 .. 2^40")
        ranks = self.tp * self.pp * self.dp
        if max(ranks, self.dcp) > MAX_RANKS:
            raise UsageError(
                f"{max(ranks, self.dcp):,} ranks are more than {MAX_RANKS:,}",
                hint="tp x pp x dp is one cache for each rank; no such deployment exists",
            )


def context_of(spec: ModelSpec, request: Request) -> int:
    """Tokens per sequence: the request's, else the model's maximum.

    A model that keeps the same whatever the context needs neither: then it is one token.

    Raises:
        UsageError: neither says, and something depends on it.
    """
    if request.ctx is not None:
        return request.ctx
    if spec.max_context is None:
        if same_whatever_the_context(spec, request):
            return 1
        raise UsageError(
            f"{spec.name} does not say how long its context is",
            hint="give --ctx, or write max_context in the spec",
        )
    return spec.max_context


def same_whatever_the_context(spec: ModelSpec, request: Request) -> bool:
    """Whether nothing that the model keeps depends on the number of tokens."""
    encoder_known = request.encoder_tokens is not None or spec.encoder_tokens is not None
    return not any(
        state.depends_on_context or (isinstance(state, CrossAttention) and not encoder_known)
        for states in spec.kinds.values()
        for state in states
    )


def encoder_tokens_of(spec: ModelSpec, request: Request) -> int:
    """Tokens that cross attention keeps: the request's, else the model's, else the context."""
    return request.encoder_tokens or spec.encoder_tokens or context_of(spec, request)


def model_dtype(spec: ModelSpec) -> DType | None:
    """The model's own format, None when its config does not say."""
    return parse_dtype(spec.dtype, "dtype") if spec.dtype else None


def cache_dtypes(spec: ModelSpec, request: Request) -> CacheDTypes:
    """The formats of K, V and of states that follow the model.

    `auto` is the format the checkpoint declares for its cache, else the model's own; a model that
    keeps nothing needs none.

    Raises:
        UsageError: a format is asked for or needed that nothing names.
    """
    model = model_dtype(spec)

    def chosen(text: str | None, what: str) -> DType:
        if text is None:
            text, what = request.dtype, "--dtype"
        if text.strip().lower() != "auto":
            return parse_dtype(text, what)
        if spec.kv_dtype:
            return parse_dtype(spec.kv_dtype, "kv_dtype")
        if model is None:
            if not any(spec.kinds.values()):
                return NO_FORMAT
            raise UsageError(
                f"{spec.name} does not say which format it runs in",
                hint="give --dtype (bf16, fp16, fp8, ...), or write dtype in the spec",
            )
        return model

    k, v = chosen(request.dtype_k, "--dtype-k"), chosen(request.dtype_v, "--dtype-v")
    # A cache option is the best evidence left of the model's own format when the spec is silent;
    # only states that follow the model would use it, and a plain 16- or 32-bit format is needed.
    own = model or (k if k.name in ("bfloat16", "float16", "float32") else None)
    if own is None:
        follows = any(
            getattr(state, "conv_elements", 0) and getattr(state, "conv_dtype", None) is None
            for states in spec.kinds.values()
            for state in states
        )
        if follows:
            raise UsageError(
                f"{spec.name} does not say which format it runs in, and its convolution states"
                " follow it",
                hint="write dtype in the spec",
            )
        own = k
    return CacheDTypes(k, v, own)
