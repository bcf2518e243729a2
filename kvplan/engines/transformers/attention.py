"""K and V as transformers caches them: heads, latents, cross attention and sparse-attention keys.

    heads             keys [B, kv_heads, T, head_dim], values [B, kv_heads, T, v_head_dim]
    latent, compressed keys [B, 1, T, kv_lora_rank],    values [B, 1, T, qk_rope_head_dim]
    latent, before 5.15 keys [B, heads, T, nope + rope], values [B, heads, T, v_head_dim]
    indexer (DSA)     indexer_keys [B, T, index_head_dim]
    MiniMax-M3        idx_keys [B, 1, T, index_head_dim]

Source: transformers 5.24.0, cache_utils.py, models/*/modeling_*.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engines.transformers.families import Family
from kvplan.engines.transformers.held import Held, own, view
from kvplan.engines.transformers.run import Run, kept, stored
from kvplan.engines.transformers.versions import Rules
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import (
    ChunkedAttention,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
)

Attention = HeadState | LatentAttention


@dataclass(frozen=True, slots=True)
class Widths:
    """What one token adds to K and to V: heads and elements per head."""

    k_heads: int
    k_dim: int
    v_heads: int
    v_dim: int


def widths(state: Attention, spec: ModelSpec, family: Family, rules: Rules, tp: int) -> Widths:
    """Heads and dims of one rank's K and V.

    Raises:
        UsageError: a fact is missing, or heads cannot be split over `tp` ranks.
    """
    if isinstance(state, LatentAttention):
        if rules.mla_compressed:
            # Every rank keeps the latent, but its query heads are split.
            if (state.heads or spec.heads) and not family.whole_attention:
                _split(_heads(state, spec), tp, "attention")
            return Widths(1, state.kv_lora_rank, 1, state.qk_rope_head_dim)
        heads = _heads(state, spec)
        nope, v_dim = state.qk_nope_head_dim, state.v_head_dim
        if nope is None or v_dim is None:
            raise UsageError(
                f"transformers {rules.version} caches K and V of every head of {spec.name}, and "
                "the spec does not say how wide they are",
                hint="write qk_nope_head_dim and v_head_dim on the latent layers",
            )
        split = heads if family.whole_attention else _split(heads, tp)
        return Widths(split, nope + state.qk_rope_head_dim, split, v_dim)
    heads = state.kv_heads
    # falcon with one KV head (multi_query) caches that head; with groups, all query heads.
    if family.broadcast_heads and heads > 1:
        heads = _heads(state, spec)
    split = _split(heads, tp)
    return Widths(split, state.head_dim, split, state.value_dim)


def _heads(state: Attention, spec: ModelSpec) -> int:
    heads = state.heads or spec.heads
    if heads is None:
        raise UsageError(
            f"{spec.name} does not say how many query heads it has, and this cache holds one K and "
            "V for each",
            hint="write heads in the spec",
        )
    return heads


def _split(heads: int, tp: int, what: str = "key/value") -> int:
    if heads % tp:
        raise UsageError(f"transformers cannot split {heads} {what} heads over {tp} ranks")
    return heads // tp


def window_of(state: HeadState, family: Family) -> int | None:
    """Tokens of the window as the class counts it, None when every token is kept."""
    if family.all_full:
        return None
    if isinstance(state, SlidingAttention):
        return state.window + family.window_offset
    return state.chunk if isinstance(state, ChunkedAttention) else None


def dynamic_kv(
    state: Attention, wide: Widths, window: int | None, run: Run, dtype: str
) -> tuple[Held, ...]:
    """K and V of a layer that grows with the tokens."""
    if isinstance(state, CrossAttention):
        return _kv(wide, run.batch, run.encoder_tokens, run.encoder_tokens, dtype)
    if window is None:
        return _kv(wide, run.batch, run.tokens, run.tokens, dtype)
    return _kv(wide, run.batch, kept(window, run.tokens), stored(window, run), dtype)


def static_kv(
    state: Attention, wide: Widths, window: int | None, run: Run, max_cache_len: int, dtype: str
) -> tuple[Held, ...]:
    """K and V of a layer allocated once: the window itself, not window - 1."""
    length = max_cache_len if window is None else min(window, max_cache_len)
    if isinstance(state, CrossAttention):
        length = run.encoder_tokens
    return _kv(wide, run.batch, length, length, dtype)


def _kv(wide: Widths, batch: int, length: int, storage: int, dtype: str) -> tuple[Held, ...]:
    return (
        view("keys", (batch, wide.k_heads, length, wide.k_dim), 2, storage, dtype),
        view("values", (batch, wide.v_heads, length, wide.v_dim), 2, storage, dtype),
    )


def indexer_keys(state: Indexer, beside: Attention, batch: int, length: int, dtype: str) -> Held:
    """The keys with which a sparse layer chooses its tokens, in the model's format.

    Raises:
        UsageError: keys for groups of tokens outside of DeepSeek V4.
    """
    if state.ratio != 1:
        raise UsageError("an indexer with a ratio is only known beside compressed latents")
    if isinstance(beside, LatentAttention):
        return own("indexer_keys", (batch, length, state.kv_heads * state.head_dim), dtype)
    return own("idx_keys", (batch, state.kv_heads, length, state.head_dim), dtype)
