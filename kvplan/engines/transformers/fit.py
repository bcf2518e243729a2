"""What fits: the most a generation ever holds, and its exact inverse in batch and in context.

A dynamic cache allocates nothing ahead, so what must fit is the peak of one generation: the moment
right after its prefill, its end, and the saw teeth between (a residual just before it is flushed, a
DeepSeek V4 buffer just before its window closes). That peak only grows with the tokens and with the
batch, so the largest that fits is found by bisection, and one more does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.engines.request import Request, context_of
from kvplan.engines.transformers.layers import Builder
from kvplan.engines.transformers.options import Options
from kvplan.engines.transformers.quantized import flush_period
from kvplan.engines.transformers.run import Run
from kvplan.errors import UsageError
from kvplan.search import largest_or_any
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import CompressedLatent


def run_of(
    spec: ModelSpec,
    request: Request,
    options: Options,
    *,
    batch: int | None = None,
    tokens: int | None = None,
) -> Run:
    """The generation a request asks for: its prefill is all of ctx unless `prefill` says less.

    Raises:
        UsageError: a prefill longer than the context, or a batch of none.
    """
    ctx = context_of(spec, request) if tokens is None else tokens
    prefill = ctx if options.prefill is None else options.prefill
    if prefill > ctx and tokens is None:
        raise UsageError(f"prefill {prefill:,} is longer than the context of {ctx:,} tokens")
    size = request.batch if batch is None else batch
    if size < 1 or ctx < 0:
        raise UsageError(f"batch {size} and ctx {ctx} do not make a request")
    return Run(
        batch=size,
        tokens=ctx,
        prefill=min(prefill, ctx),
        chunk=options.chunk,
        encoder_tokens=request.encoder_tokens or spec.encoder_tokens or ctx,
    )


def peak_held(builder: Builder, run: Run) -> int:
    """The most bytes that a generation holds on its way to `run`."""
    moments = {run.tokens, run.prefill}
    if builder.kind == "quantized" and builder.options.quantization.backend != "fp8":
        period = flush_period(builder.options.quantization, legacy=builder.rules.legacy)
        flushes = (run.decode_steps + 1) // period
        if flushes:
            moments.add(run.prefill + flushes * period - 1)
    for state in builder.spec.states():
        if isinstance(state, CompressedLatent) and state.ratio:
            closed = run.tokens // state.ratio * state.ratio
            if closed > run.prefill:
                moments.add(closed)
    return max(builder.build(run.at(tokens)).held for tokens in moments)


def largest(cost: Callable[[int], int], available: int) -> int | None:
    """The largest count whose cost fits, 0 if not even 1 does, None if there is no bound."""
    return largest_or_any(lambda count: cost(count) <= available)
