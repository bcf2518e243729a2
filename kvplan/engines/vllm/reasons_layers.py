"""Why one layer costs something else in vLLM than the model keeps: formats, ranks, packing."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.specs import StateSpec
from kvplan.engines.vllm.planning import Planned
from kvplan.spec import states as kept
from kvplan.spec.recurrent import RecurrentState


def layer_reasons(made: Planned) -> Iterator[str]:
    """Sentences about formats, ranks and rows."""
    model = made.model
    every = list(model.spec.states())
    yield from _formats(model)
    yield from _ranks(model, every)
    yield from _latents(made, every)
    yield from _states(made, every)
    if not made.hybrid and any(
        isinstance(s, (kept.SlidingAttention, kept.ChunkedAttention)) for s in every
    ):
        yield "with the hybrid KV cache manager off, windows are stored like full attention"


def _formats(model: Model) -> Iterator[str]:
    cache = model.cache
    if model.family.native_cache_only and cache.is_quantized:
        yield (
            f"--kv-cache-dtype {cache.name} does not reach this model's attention, which stays "
            f"in {model.dtype}"
        )
    elif cache.origin is not None and model.settings.cache_dtype.strip().lower() == "auto":
        yield f"--kv-cache-dtype auto becomes {cache.name} ({cache.origin})"
    if model.skips_layers and cache.is_quantized:
        yield f"skipped layers stay in {model.dtype} beside a {cache.name} cache"


def _ranks(model: Model, every: list[kept.State]) -> Iterator[str]:
    tp, dcp = model.settings.tp, model.settings.dcp
    if tp > 1 and model.mla:
        yield f"the latent has one head, so each of {tp} ranks stores all of it"
    heads = {s.kv_heads for s in every if isinstance(s, kept.HeadState)}
    for count in sorted(heads):
        if count < tp and not model.mla:
            yield (
                f"{count} KV head{'s' if count > 1 else ''} on {tp} ranks: every head is stored "
                f"{tp // count} times"
            )
    if dcp > 1:
        yield f"decode context parallelism leaves each rank 1 / {dcp} of full attention's tokens"
    if model.settings.pp > 1:
        yield "the fullest pipeline stage decides how many blocks all stages have"


def _latents(made: Planned, every: list[kept.State]) -> Iterator[str]:
    model = made.model
    latent = next((s for s in every if isinstance(s, kept.LatentAttention)), None)
    if latent is not None and not model.mla:
        size = (latent.qk_nope_head_dim or 0) + latent.qk_rope_head_dim
        heads = latent.heads or model.heads
        yield f"vLLM stores this latent decompressed: {heads} heads, {size} elements of K and of V"
    runs = [run for group in made.pool.groups for run in group.members]
    for run in runs:
        if run.spec.identity[0] == "latent" and run.spec.identity[2] == "fp8_ds_mla":
            yield (
                f"a latent row has {run.spec.row_bytes} bytes: 512 fp8 values, 16 of scales and "
                "64 rotary elements in 16 bit"
            )
            break
    for run in runs:
        if run.spec.identity[0] == "index" and run.spec.element == "uint8":
            yield (
                f"an indexer key has {run.spec.row_bytes} bytes whatever --kv-cache-dtype says: "
                f"{run.spec.identity[1]} fp8 values and their scales"
            )
            break
    if any(run.spec.identity[0] == "compressor" for run in runs):
        yield (
            "DeepSeek V4's compressors keep float32 states in blocks of 4 and 8 tokens, which the "
            "logical figure does not have"
        )


def _states(made: Planned, every: list[kept.State]) -> Iterator[str]:
    if not any(isinstance(s, RecurrentState) for s in every):
        return
    choice = made.choice
    page = next(
        (
            run.spec.row_bytes
            for group in made.pool.groups
            for run in group.members
            if isinstance(run.spec, StateSpec)
        ),
        0,
    )
    if choice.state_page is not None:
        yield (
            f"blocks hold {choice.size:,} tokens so that an attention page ({choice.state_page:,} "
            f"bytes) holds a layer's state ({page:,} bytes)"
        )
    formats = {
        run.spec.element
        for group in made.pool.groups
        for run in group.members
        if isinstance(run.spec, StateSpec)
    }
    if "float32" not in "".join(formats):
        yield f"recurrent states are kept in {', '.join(sorted(formats))}, not in float32"
