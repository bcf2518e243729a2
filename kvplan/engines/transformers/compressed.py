"""DeepSeek V4: one vector as K and V in a window, compressed entries beyond, buffers between.

Beside the window a compressing layer (ratio R) keeps, per entry name (`compressor`; with an indexer
also `indexer`):

    buffer_kv, buffer_gate    [B, T mod R, width]    source tokens of the entry not closed yet
    compressed_kv             [B, T // R, dim]
    overlap_kv, overlap_gate  [B, R, dim]            with an indexer, once T >= R; gate float32

`width` is dim, or 2 x dim where windows overlap (layers with an indexer). K and V are one storage
in compressing layers and two in the window-only ones. Buffers are views: right after a prefill they
hold the projection of all its tokens.

Source: transformers 5.24.0, models/deepseek_v4/modeling_deepseek_v4.py, DeepseekV4HCACache and
DeepseekV4CSACache.
"""

from __future__ import annotations

from kvplan.engines.transformers.held import Held, LayerCache, alias, own, view
from kvplan.engines.transformers.run import Run, kept, stored
from kvplan.errors import UsageError
from kvplan.spec.states import CompressedLatent, Indexer


def compressed_layer(
    state: CompressedLatent, indexer: Indexer | None, run: Run, dtype: str
) -> LayerCache:
    """All tensors of one such layer.

    Raises:
        UsageError: an indexer whose ratio is not the layer's.
    """
    shape = (run.batch, 1, kept(state.window, run.tokens), state.head_dim)
    keys = view("keys", shape, 2, stored(state.window, run), dtype)
    if state.ratio is None:
        values = view("values", shape, 2, stored(state.window, run), dtype)
        return LayerCache("DynamicSlidingWindowLayer", (keys, values))
    tensors = [keys, alias("values", shape, dtype)]
    if indexer is None:
        tensors += _entry("compressor", state.head_dim, state.ratio, False, run, dtype)
        return LayerCache("DeepseekV4HCACache", tuple(tensors))
    if indexer.ratio != state.ratio:
        raise UsageError(
            f"the indexer's ratio {indexer.ratio} is not the layer's ratio {state.ratio}"
        )
    tensors += _entry("compressor", state.head_dim, state.ratio, True, run, dtype)
    tensors += _entry("indexer", indexer.head_dim, state.ratio, True, run, dtype)
    return LayerCache("DeepseekV4CSACache", tuple(tensors))


def _entry(name: str, dim: int, ratio: int, overlap: bool, run: Run, dtype: str) -> list[Held]:
    batch, tokens = run.batch, run.tokens
    width = 2 * dim if overlap else dim
    # The last update concatenated what was left over with what came, less the closed windows.
    storage = (tokens - run.last_pass) % ratio + run.last_pass
    left = (batch, tokens % ratio, width)
    found = [
        view(f"buffer_kv.{name}", left, 1, storage, dtype),
        view(f"buffer_gate.{name}", left, 1, storage, dtype),
        own(f"compressed_kv.{name}", (batch, tokens // ratio, dim), dtype),
    ]
    if overlap and tokens >= ratio:
        found.append(own(f"overlap_kv.{name}", (batch, ratio, dim), dtype))
        # The gate has met the float32 position bias by then.
        found.append(own(f"overlap_gate.{name}", (batch, ratio, dim), "float32"))
    return found
