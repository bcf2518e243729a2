"""The transformers engine: one request in, the tensors of its cache out.

`layout` gives the cache as it stands after `ctx` tokens. By default they came in one prefill; the
option `prefill=N` makes the rest decode steps. `bytes` counts every tensor by its own size,
`storage_bytes` what the allocator holds for them (the two differ where a layer keeps a view),
`storage_bytes_after_decode` the same once the last token was a decode step, and `peak_bytes` the
most that one rank holds on the way there, which is what has to fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan.dtypes import DType, parse_dtype
from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.layout import CacheLayout, Provenance, RankLayout, version_notices
from kvplan.engines.request import Request, model_dtype
from kvplan.engines.transformers import layer_types as types
from kvplan.engines.transformers import quantized, versions
from kvplan.engines.transformers.attention import widths
from kvplan.engines.transformers.families import as_class_reads, family_of
from kvplan.engines.transformers.fit import largest, peak_held, run_of
from kvplan.engines.transformers.held import torch_name
from kvplan.engines.transformers.layers import Builder
from kvplan.engines.transformers.options import read_options, split_args
from kvplan.engines.transformers.pool import paged_fit, paged_layout
from kvplan.engines.transformers.reasons import reasons
from kvplan.engines.transformers.run import Run
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import HeadState, LatentAttention


class TransformersEngine:
    """Hugging Face transformers: DynamicCache, StaticCache, QuantizedCache and the paged cache."""

    name = "transformers"
    versions = versions.KNOWN

    def split_args(self, text: str) -> dict[str, str]:
        """`nbits=2 q_group_size=128` as options; see `options.split_args`.

        Raises:
            UsageError: a word that gives no value.
        """
        return split_args(text)

    def settled(self, request: Request) -> Request:
        """As it is: no option of the library says what the request's fields say."""
        return request

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """None: a checkpoint runs in the format of its weights, which only they say."""
        return None

    def layout(self, spec: ModelSpec, request: Request, version: str = "") -> CacheLayout:
        """What the cache of `request` holds, on each rank.

        Raises:
            UsageError: a missing fact, an option that does not exist, a combination not modelled.
        """
        builder, provenance = builder_of(spec, request, version)
        if builder.kind == "paged":
            return paged_layout(builder, request, provenance)
        run = run_of(spec, request, builder.options)
        refusal = refusal_of(builder, run)
        if refusal is not None:
            return self._answer(builder, (), provenance, refusal=refusal)
        cache = builder.build(run)
        tensors = cache.tensors()
        ranks = tuple(RankLayout(rank, tensors) for rank in range(request.tp))
        peak, first = peak_held(builder, run), builder.build(run.at(run.prefill)).held
        figures = {
            "cache_layers": cache.classes,
            "prefill": run.prefill,
            "bytes": cache.bytes * request.tp,
            "storage_bytes": cache.held * request.tp,
            "storage_bytes_after_decode": builder.build(run.decoded()).held * request.tp,
            "next_token_bytes": (builder.build(run.next_step()).bytes - cache.bytes) * request.tp,
            "peak_bytes": peak,
            "peak_moment": "prefill" if first == peak else "decode",
            "needed_bytes_one_request": peak_held(
                builder, run_of(spec, request, builder.options, batch=1)
            ),
        }
        return self._answer(
            builder, ranks, provenance, figures=figures, why=reasons(builder, cache, run)
        )

    def fit(
        self, spec: ModelSpec, request: Request, version: str = "", available_bytes: int = 0
    ) -> CacheLayout:
        """The layout of `request`, and how far `available_bytes` per rank would reach.

        Raises:
            UsageError: as for `layout`.
        """
        builder, provenance = builder_of(spec, request, version)
        if builder.kind == "paged":
            return paged_fit(builder, request, provenance, available_bytes)
        answer = self.layout(spec, request, version)
        if answer.refusal is not None:
            none = {"fits": False, "max_batch_at_ctx": 0, "max_ctx_at_batch": 0}
            return replace(answer, figures=none)
        options, ctx = builder.options, run_of(spec, request, builder.options).tokens

        def needed(batch: int, tokens: int) -> int:
            return peak_held(builder, run_of(spec, request, options, batch=batch, tokens=tokens))

        batches = largest(lambda batch: needed(batch, ctx), available_bytes)
        tokens = largest(lambda tokens: needed(request.batch, tokens), available_bytes)
        figures = {
            **answer.figures,
            "available_bytes": available_bytes,
            "fits": needed(request.batch, ctx) <= available_bytes,
            "max_batch_at_ctx": batches,
            "max_ctx_at_batch": tokens,
            "capacity_tokens": None if batches is None else batches * ctx,
            "max_concurrency": batches,
        }
        return self._answer(builder, answer.ranks, provenance, figures=figures, why=answer.reasons)

    def _answer(
        self,
        builder: Builder,
        ranks: tuple[RankLayout, ...],
        provenance: tuple[Provenance, ...],
        *,
        figures: dict[str, Any] | None = None,
        why: tuple[str, ...] = (),
        refusal: Refusal | None = None,
    ) -> CacheLayout:
        return CacheLayout(
            engine=self.name,
            version=builder.rules.version,
            ranks=ranks,
            refusal=refusal,
            provenance=provenance,
            figures=figures or {},
            reasons=why,
            notices=version_notices(provenance),
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
