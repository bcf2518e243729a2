"""Why what transformers holds differs from what a model must keep, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.dtypes import find_dtype
from kvplan.engines.transformers.attention import widths, window_of
from kvplan.engines.transformers.held import ITEM_BYTES
from kvplan.engines.transformers.layers import Builder, Cache
from kvplan.engines.transformers.quantized import split_tokens
from kvplan.engines.transformers.recurrent import holds_float32
from kvplan.engines.transformers.run import Run, kept
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
)


def reasons(builder: Builder, cache: Cache, run: Run) -> tuple[str, ...]:
    """All sentences that apply, the costliest kinds first."""
    found = [
        *_heads(builder),
        *_windows(builder, cache, run),
        *_states(builder),
        *_fixed(builder, run),
    ]
    declared = find_dtype(builder.spec.kv_dtype) if builder.spec.kv_dtype else None
    if declared is not None and declared.name != builder.dtype:
        found.append(
            f"the checkpoint declares a {declared.name} cache; transformers caches in "
            f"{builder.dtype}, the format the model runs in"
        )
    return tuple(found)


def _heads(builder: Builder) -> Iterator[str]:
    for state in builder.spec.states():
        if isinstance(state, LatentAttention) and not builder.rules.mla_compressed:
            wide = widths(state, builder.spec, builder.family, builder.rules, 1)
            elements = wide.k_heads * (wide.k_dim + wide.v_dim)
            latent = state.kv_lora_rank + state.qk_rope_head_dim
            yield (
                f"transformers {builder.rules.version} decompresses MLA before it caches: "
                f"{wide.k_heads} heads x ({wide.k_dim} K + {wide.v_dim} V) = {elements:,} elements "
                f"per token and layer where the latent has {latent}; 5.15 and later cache that"
            )
            return
    for state in builder.spec.states():
        if isinstance(state, HeadState) and builder.family.broadcast_heads and state.kv_heads > 1:
            heads = widths(state, builder.spec, builder.family, builder.rules, 1).k_heads
            yield (
                f"this class copies its {state.kv_heads} KV heads to all {heads} query heads "
                f"before it caches them: {heads // state.kv_heads} x the memory"
            )
            return


def _windows(builder: Builder, cache: Cache, run: Run) -> Iterator[str]:
    if builder.kind == "static":
        return
    sliding = [
        s for s in builder.spec.states() if isinstance(s, SlidingAttention | ChunkedAttention)
    ]
    if sliding and (builder.family.all_full or not builder.options.with_config):
        yield "windows are only a mask here: every layer keeps every token"
        return
    windows = sorted({w for s in sliding if (w := window_of(s, builder.family)) is not None})
    windows += sorted({s.window for s in builder.spec.states() if isinstance(s, CompressedLatent)})
    full = [w for w in windows if 1 < w <= run.tokens]
    if full:
        listed = " and ".join(f"{kept(w, run.tokens):,}" for w in full)
        yield (
            f"a sliding layer keeps window - 1 = {listed} tokens, because the next token brings "
            "its own"
        )
    after = builder.build(run.next_step())
    if windows and run.last_pass > 1 and cache.held > after.held:
        yield (
            f"right after the prefill {cache.held:,} bytes are held, because what a sliding layer "
            f"keeps is a view of all its tokens; one decode step later {after.held:,}"
        )


def _states(builder: Builder) -> Iterator[str]:
    recurrent = [s for s in builder.spec.states() if isinstance(s, RecurrentState)]
    kernels = sorted({s.conv_kernel for s in recurrent if s.conv_kernel})
    if kernels and not builder.family.in_modules:
        yield (
            f"convolution states keep all {' or '.join(map(str, kernels))} columns of the kernel, "
            "one more than the next token needs"
        )
    float32 = holds_float32(builder.family, builder.spec.model_type, builder.rules)
    for matrix in recurrent:
        if matrix.matrix_shape and (matrix.matrix_dtype().name == "float32") != float32:
            kept_in = "float32" if float32 else builder.dtype
            yield f"the recurrent matrix is kept in {kept_in}, not in {matrix.matrix_dtype().name}"
            break
    for state in builder.spec.states():
        if isinstance(state, Indexer):
            size = state.kv_heads * state.head_dim * ITEM_BYTES[builder.dtype]
            yield f"indexer keys are kept in {builder.dtype}: {size} bytes each"
            break
    if any(isinstance(s, CompressedLatent) for s in builder.spec.states()):
        yield (
            "DeepSeek V4 lists its keys again as values (one storage, but two in window-only "
            "layers) and keeps buffers of source tokens for the entries not closed yet"
        )


def _fixed(builder: Builder, run: Run) -> Iterator[str]:
    if builder.family.own_cache and builder.options.kind != "dynamic":
        yield f"the model brings {builder.family.own_cache} and ignores cache_implementation"
    if builder.kind == "static":
        length = builder.max_cache_len(run)
        yield (
            f"a static cache sets {length:,} tokens aside per full layer and at most "
            "its window per sliding layer, used or not"
        )
    if builder.kind == "quantized":
        tokens, residual = split_tokens(
            builder.options.quantization, run, legacy=builder.rules.legacy
        )
        yield (
            f"{tokens:,} of {run.tokens:,} tokens are quantised "
            f"({builder.options.quantization.backend}); {residual:,} wait in {builder.dtype}"
        )
