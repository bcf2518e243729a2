"""The transformers engine: one request in, the tensors of its cache out.

`layout` gives the cache as it stands after `ctx` tokens. By default they came in one prefill; the
option `prefill=N` makes the rest decode steps. `bytes` counts every tensor by its own size,
`storage_bytes` what the allocator holds for them (the two differ where a layer keeps a view),
`storage_bytes_after_decode` the same once the last token was a decode step, and `peak_bytes` the
most that one rank holds on the way there, which is what has to fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kvplan.dtypes import DType, parse_dtype
from kvplan.engines.base import Engine, Prepared
from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.layout import (
    CacheLayout,
    Plan,
    Provenance,
    RankLayout,
    version_notices,
    with_tensors,
)
from kvplan.engines.request import Request, model_dtype
from kvplan.engines.transformers import layer_types as types
from kvplan.engines.transformers import quantized, versions
from kvplan.engines.transformers.attention import widths
from kvplan.engines.transformers.families import as_class_reads, family_of
from kvplan.engines.transformers.fit import largest, peak_held, run_of
from kvplan.engines.transformers.held import torch_name
from kvplan.engines.transformers.layers import Builder, Cache
from kvplan.engines.transformers.options import read_options, split_args
from kvplan.engines.transformers.pool import PreparedPaged
from kvplan.engines.transformers.reasons import reasons
from kvplan.engines.transformers.run import Run
from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import HeadState, LatentAttention

if TYPE_CHECKING:
    from kvplan.engines.base import P


class TransformersEngine(Engine):
    """Hugging Face transformers: DynamicCache, StaticCache, QuantizedCache and the paged cache."""

    name: ClassVar[str] = "transformers"
    versions: ClassVar[tuple[str, ...]] = versions.KNOWN

    def split_args(self, text: str) -> dict[str, str]:
        """`nbits=2 q_group_size=128` as options; see `options.split_args`.

        Raises:
            UsageError: a word that gives no value.
        """
        return split_args(text)

    def prepare(
        self, spec: ModelSpec, request: Request, version: str = ""
    ) -> PreparedTransformers | PreparedPaged:
        """What decides the layers of a cache.

        Raises:
            UsageError: a missing fact, an option that does not exist, a combination not modelled.
        """
        builder, provenance = builder_of(spec, request, version)
        if builder.kind == "paged":
            return PreparedPaged(request, builder, provenance)
        return PreparedTransformers(spec, request, builder, provenance)


class Figures(NamedTuple):
    """Figures of a cache that is no pool, beside those that every engine has.

    Attributes:
        cache_layers: cache class -> number of cache layers.
        bytes, storage_bytes: of all ranks: tensors by their own size, and the storages behind them.
        storage_bytes_after_decode: the same once the last token was a decode step.
        next_token_bytes: what one more token adds to `bytes`.
        builder, cache, run: what `reasons` tells about.
    """

    cache_layers: dict[str, int]
    prefill: int
    bytes: int
    storage_bytes: int
    storage_bytes_after_decode: int
    next_token_bytes: int
    builder: Builder
    cache: Cache
    run: Run


PRINTED = (
    "cache_layers", "prefill", "bytes", "storage_bytes", "storage_bytes_after_decode",
    "next_token_bytes", "peak_bytes", "peak_moment", "needed_bytes_one_request",
)  # fmt: skip


class PreparedTransformers(Prepared):
    """A dynamic, static or quantised cache of one model, before its tokens are known."""

    def __init__(
        self,
        spec: ModelSpec,
        request: Request,
        builder: Builder,
        provenance: tuple[Provenance, ...],
    ) -> None:
        self.spec = spec
        self.request = request
        self.builder = builder
        self.provenance = provenance

    def plan(self, ctx: int | None, batch: int) -> Plan:
        run = self._run(ctx, batch)
        builder, tp = self.builder, self.builder.tp
        refusal = refusal_of(builder, run)
        if refusal is not None:
            return self._answer(refusal=refusal, fits=False)
        cache = builder.build(run)
        peak, first = peak_held(builder, run), builder.build(run.at(run.prefill)).held
        afterwards = builder.build(run.decoded()).held
        return self._answer(
            peak_bytes=peak,
            stated_bytes=cache.bytes * tp,
            peak_moment="prefill" if first == peak else "decode",
            afterwards_bytes=afterwards,
            needed_bytes_one_request=peak_held(builder, self._run(ctx, 1)),
            extra=Figures(
                cache_layers=cache.classes,
                prefill=run.prefill,
                bytes=cache.bytes * tp,
                storage_bytes=cache.held * tp,
                storage_bytes_after_decode=afterwards * tp,
                next_token_bytes=(builder.build(run.next_step()).bytes - cache.bytes) * tp,
                builder=builder,
                cache=cache,
                run=run,
            ),
            printed=PRINTED,
        )

    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        plan = self.explained(self.plan(ctx, batch))
        if not isinstance(plan.extra, Figures):
            return with_tensors(plan, ())
        tensors = plan.extra.cache.tensors()
        return with_tensors(plan, (RankLayout(rank=0, tensors=tensors, count=self.builder.tp),))

    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        """The plan of the request, and how far `available_bytes` per rank would reach."""
        plan = self.plan(ctx, batch)
        if plan.refusal is not None:
            return plan.replaced(
                inverted=True,
                max_batch_at_ctx=0,
                max_ctx_at_batch=0,
                printed=("fits", "max_batch_at_ctx", "max_ctx_at_batch"),
            )
        tokens = self._run(ctx, batch).tokens

        def needed(batch: int, tokens: int) -> int:
            run = run_of(self.spec, self.request, self.builder.options, batch=batch, tokens=tokens)
            return peak_held(self.builder, run)

        batches = largest(lambda batch: needed(batch, tokens), available_bytes)
        return plan.replaced(
            available_bytes=available_bytes,
            fits=needed(batch, tokens) <= available_bytes,
            inverted=True,
            max_batch_at_ctx=batches,
            max_ctx_at_batch=largest(lambda tokens: needed(batch, tokens), available_bytes),
            capacity_tokens=None if batches is None else batches * tokens,
            max_concurrency=batches,
            printed=(
                *PRINTED, "available_bytes", "fits", "max_batch_at_ctx", "max_ctx_at_batch",
                "capacity_tokens", "max_concurrency",
            ),
        )  # fmt: skip

    def explained(self, plan: P) -> P:
        figures = plan.extra
        if not isinstance(figures, Figures) or plan.reasons:
            return plan
        return plan.replaced(reasons=reasons(figures.builder, figures.cache, figures.run))

    def _run(self, ctx: int | None, batch: int) -> Run:
        request = self.request.replaced(ctx=ctx)
        return run_of(self.spec, request, self.builder.options, batch=batch)

    def _answer(self, **figures: Any) -> Plan:
        return Plan(
            engine=TransformersEngine.name,
            version=self.builder.rules.version,
            provenance=self.provenance,
            notices=version_notices(self.provenance),
            **figures,
        )


def builder_of(
    spec: ModelSpec, request: Request, version: str
) -> tuple[Builder, tuple[Provenance, ...]]:
    """What decides the layout, and where its defaults come from.

    Raises:
        UsageError: parallelism that transformers has not, or a format it does not cache in.
    """
    rules = versions.settle(version)
    for flag in ("pp", "dp", "dcp"):
        if getattr(request, flag) != 1:
            raise UsageError(
                f"{flag} is not modelled for transformers", hint=f"leave --{flag} at 1"
            )
    options = read_options(request.options)
    dtype, origin = _dtype(spec, request)
    family = family_of(spec.model_type)
    builder = Builder(
        spec=as_class_reads(spec, family),
        family=family,
        rules=rules,
        options=options,
        dtype=torch_name(dtype),
        tp=request.tp,
        with_draft=request.with_draft,
    )
    settled = [Provenance("dtype", dtype.name, origin)]
    if options.prefill is None and builder.kind != "paged":
        settled.append(Provenance("prefill", "ctx", "the whole context came in one prefill"))
    return builder, (*rules.provenance, *settled, *options.provenance)


def _dtype(spec: ModelSpec, request: Request) -> tuple[DType, str]:
    """The format the cache is kept in, which is the one the model runs in."""
    asked = [
        parse_dtype(text, flag)
        for flag, text in (
            ("--dtype", request.dtype),
            ("--dtype-k", request.dtype_k or "auto"),
            ("--dtype-v", request.dtype_v or "auto"),
        )
        if text.strip().lower() != "auto"
    ]
    if len({dtype.name for dtype in asked}) > 1:
        raise UsageError("transformers keeps K and V in one format", hint="give --dtype alone")
    if asked:
        return asked[0], "as asked"
    own = model_dtype(spec)
    if own is None:
        raise UsageError(
            f"{spec.name} does not say which format it runs in",
            hint="give --dtype (bf16, fp16, fp32), or write dtype in the spec",
        )
    return own, "the model's own format"


def refusal_of(builder: Builder, run: Run) -> Refusal | None:
    """What transformers would raise instead of building this cache, else None."""
    spec, options = builder.spec, builder.options
    named = types.layer_types(spec, builder.family)
    if builder.kind == "quantized":
        refusal = types.quantized_refusal(named, options.quantization, builder.rules)
        if refusal is not None:
            return refusal
        for state in spec.states():
            if isinstance(state, HeadState | LatentAttention):
                wide = widths(state, spec, builder.family, builder.rules, builder.tp)
                refusal = quantized.refusal(
                    wide, options.quantization, run, legacy=builder.rules.legacy
                )
                if refusal is not None:
                    return refusal
    if builder.kind == "static" and not builder.rules.legacy:
        return types.static_refusal(named)
    if builder.kind == "dynamic" and not options.with_config:
        return types.no_config_refusal(spec, named)
    return None
