"""The pages of one slot: rows, windows, alignments, under the block size that was settled.

    heads    KV heads x (K + V) per token; windows take the largest kernel block that fits the page
    latent   one row per token, packed or plain
    index    DeepSeek: fp8 keys with a float32 scale per 128 values; MiniMax M3: native keys
    V4       windows in blocks of 64, compressed rows of 584 bytes, float32 compressor states;
             pages rounded up to 576
    state    all of a layer's tensors, padded to the attention page

Source: vllm 0.33.0, layers/attention/*.py, models/deepseek_v4, v1/worker/utils.py.
"""

from __future__ import annotations

from typing import Any

from kvplan.arithmetic import ceil_div
from kvplan.engines.vllm.backends.latent import row_alignment
from kvplan.engines.vllm.layers.blocks import BlockChoice
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.slots import INDEX, STATE, V4_STATE, V4_WINDOW, Slot
from kvplan.engines.vllm.layers.specs import (
    CacheSpec,
    ChunkedSpec,
    CrossSpec,
    FullSpec,
    LatentSpec,
    SlidingLatentSpec,
    SlidingSpec,
    StateSpec,
)
from kvplan.spec import states as kept

V4_ALIGNMENT = {True: 576, False: 512}


def cache_spec(model: Model, slot: Slot, choice: BlockChoice, *, caches_states: bool) -> CacheSpec:
    """The cache of one layer with this slot.

    Args:
        caches_states: states are kept at block boundaries.
    """
    if slot.role == STATE:
        return _state_spec(model, slot, choice, caches_states=caches_states)
    if slot.role == INDEX:
        return _index_spec(model, slot, choice)
    if slot.role in (V4_WINDOW, V4_STATE) or isinstance(slot.state, kept.CompressedLatent):
        return _v4_spec(model, slot, choice)
    if isinstance(slot.state, kept.LatentAttention) and slot.query is not None and slot.query.mla:
        return _latent_spec(slot, choice)
    return _heads_spec(model, slot, choice)


def _alignment(slot: Slot, row_bytes: int) -> dict[str, int]:
    if slot.backend is None or slot.query is None:
        return {}
    in_bytes, in_tokens = row_alignment(slot.backend, slot.query, row_bytes)
    return {"stride_bytes": in_bytes, "stride_tokens": in_tokens}


def _heads_spec(model: Model, slot: Slot, choice: BlockChoice) -> CacheSpec:
    state = slot.state
    assert isinstance(state, kept.HeadState)
    per_head, content = slot.dtype.head_bytes(state.head_dim, state.value_dim)
    row = slot.kv_heads * per_head * content
    common: dict[str, Any] = {
        "block_size": choice.size,
        "row_bytes": row,
        "identity": (slot.kv_heads, state.head_dim, state.value_dim, slot.dtype.name),
        "shape": ((slot.kv_heads, state.head_dim + state.value_dim),),
        "element": slot.dtype.element,
        **_alignment(slot, row),
    }
    if isinstance(state, kept.CrossAttention):
        return CrossSpec(**common)
    if isinstance(state, kept.ChunkedAttention) and model.settings.rules.chunked_specs:
        return ChunkedSpec(**common, chunk=state.chunk)
    if isinstance(state, kept.SlidingAttention):
        common |= {"block_size": _window_block(slot, row, choice), "padded": choice.skip_page}
        return SlidingSpec(**common, window=state.window)
    return FullSpec(**common)


def _window_block(slot: Slot, row: int, choice: BlockChoice) -> int:
    """Windows take the largest kernel block whose page fits the primary one's."""
    if slot.backend is None or slot.query is None:
        return choice.size
    budget = choice.skip_page or row * choice.size
    sizes, multiples = slot.backend.kernel_blocks(slot.query)
    most = budget // row
    candidates = [max(size, most // size * size) if multiples else size for size in sizes]
    fitting = [size for size in candidates if size * row <= budget]
    return max(fitting) if fitting else min(candidates)


def _latent_spec(slot: Slot, choice: BlockChoice) -> CacheSpec:
    state = slot.state
    assert isinstance(state, kept.LatentAttention)
    size = state.kv_lora_rank + state.qk_rope_head_dim
    row = slot.dtype.latent_bytes(size)
    return LatentSpec(
        block_size=choice.size,
        row_bytes=row,
        identity=("latent", size, slot.dtype.name, slot.leader),
        shape=((size,),),
        element=slot.dtype.element,
        **_alignment(slot, row),
    )


def index_row_bytes(head_dim: int) -> int:
    """A key of DeepSeek's indexer: fp8 values, and a float32 scale per 128 of them."""
    return head_dim + ceil_div(head_dim, 128) * 4


def _index_spec(model: Model, slot: Slot, choice: BlockChoice) -> CacheSpec:
    state = slot.state
    assert isinstance(state, kept.Indexer)
    native = slot.backend is not None and slot.backend.name == "MINIMAX_M3_SPARSE_INDEXER"
    row = (
        state.kv_heads * state.head_dim * slot.dtype.element_bytes
        if native
        else index_row_bytes(state.head_dim)
    )
    return LatentSpec(
        block_size=choice.size,
        row_bytes=row,
        tokens_per_row=state.ratio,
        identity=("index", state.head_dim, slot.dtype.element if native else "uint8"),
        row_alignment=V4_ALIGNMENT[model.cache.name == "fp8_ds_mla"] if _is_v4(slot) else None,
        shape=((row,),),
        element=slot.dtype.element if native else "uint8",
        **_alignment(slot, row),
    )


def _is_v4(slot: Slot) -> bool:
    return slot.backend is not None and slot.backend.name == "DEEPSEEK_V4_INDEXER"


def _v4_spec(model: Model, slot: Slot, choice: BlockChoice) -> CacheSpec:
    """DeepSeek V4: windows, compressed rows, and the compressors' float32 states."""
    packed = model.cache.name == "fp8_ds_mla"
    common = {"row_alignment": V4_ALIGNMENT[packed]}
    state = slot.state
    if slot.role == V4_STATE:
        assert isinstance(state, (kept.CompressedLatent, kept.Indexer))
        ratio = state.ratio or 1
        overlap = 2 if ratio == 4 else 1
        size = 2 * overlap * state.head_dim
        return SlidingLatentSpec(
            block_size=4 if ratio == 4 else 8, row_bytes=size * 4,
            identity=("compressor", size), window=overlap * ratio, shape=((size,),),
            element="float32", **common,
        )  # fmt: skip
    assert isinstance(state, kept.CompressedLatent)
    # 448 fp8 values, 64 bfloat16 rotary ones and 8 bytes of scales: 584 for a head of 512.
    row = state.head_dim - 64 + 2 * 64 + 8 if packed else state.head_dim * 2
    if slot.role == V4_WINDOW:
        return SlidingLatentSpec(
            block_size=64, row_bytes=row,
            identity=("v4 window", state.head_dim, slot.dtype.name), window=state.window,
            shape=((state.head_dim,),), element="uint8", **common,
        )  # fmt: skip
    return LatentSpec(
        block_size=choice.size, row_bytes=row, tokens_per_row=state.ratio or 1,
        identity=("v4 latent", state.head_dim, slot.dtype.name), shape=((state.head_dim,),),
        element="uint8", stride_tokens=256, **common,
    )  # fmt: skip


def _state_spec(model: Model, slot: Slot, choice: BlockChoice, *, caches_states: bool) -> StateSpec:
    assert slot.shapes is not None
    return StateSpec(
        block_size=choice.size if caches_states else 0,
        lengths=0 if caches_states else 1,
        row_bytes=slot.shapes.bytes,
        identity=(slot.shapes.shapes, slot.shapes.dtypes),
        padded=choice.state_page,
        draft_blocks=model.settings.speculative_tokens,
        checkpoint_blocks=slot.checkpoint[0],
        shape=slot.shapes.shapes,
        element="+".join(dict.fromkeys(slot.shapes.dtypes)),
    )
