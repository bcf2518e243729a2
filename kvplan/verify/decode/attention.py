"""Attention by heads over what is remembered: full, sliding, chunked, cross and shared layers.

A new token's K and V go into memory; its query attends to every K that memory gives back and that
the layer may see. Keys are rotated by their position before they are stored, as engines do, so an
entry that comes back from the wrong place changes the result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from kvplan.spec.states import ChunkedAttention, HeadState, SlidingAttention, State
from kvplan.verify.decode.memory import Key, Memory, Seen
from kvplan.verify.decode.vectors import by_heads, rotate
from kvplan.verify.decode.weights import Weights

_QUERIES_AT_ONCE = 128  # bounds the memory of the score matrix, not the work
# Sharper than 1 / sqrt(dim): scores of spread 2, so that a few tokens stand out, as in a trained
# model.
SHARPNESS = 2.0


class Core(nn.Module):
    """softmax(q k^T) v, and nothing else: the operations that a cache is about."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        """q (batch, heads, n, d), k and v (batch, kv_heads, m, d and e), mask (..., n, m)."""
        pieces = [
            scaled_dot_product_attention(
                q[:, :, at : at + _QUERIES_AT_ONCE],
                k,
                v,
                None if mask is None else mask[..., at : at + _QUERIES_AT_ONCE, :],
                scale=scale,
                enable_gqa=q.shape[1] != k.shape[1],
            )
            for at in range(0, q.shape[2], _QUERIES_AT_ONCE)
        ]
        return torch.cat(pieces, dim=2)


def visible(state: State, start: int, tokens: int, first: int, device: torch.device) -> Tensor:
    """(tokens, positions) which of the positions first .. the tokens at start .. attend to."""
    query = torch.arange(start, start + tokens, device=device).unsqueeze(1)
    key = torch.arange(first, start + tokens, device=device)
    mask = key <= query
    if isinstance(state, SlidingAttention):
        mask &= query - key < state.window
    if isinstance(state, ChunkedAttention):
        chunk = state.chunk
        mask &= query.div(chunk, rounding_mode="floor") == key.div(chunk, rounding_mode="floor")
    return mask


def scored(mask: Tensor, extra: Tensor | None) -> Tensor:
    """The mask, or what is added to the scores where an indexer has a say."""
    return mask if extra is None else extra.masked_fill(~mask, -torch.inf)


class HeadAttention(nn.Module):
    """MHA, GQA and MQA, with or without a window; `source` is the layer whose cache is read."""

    def __init__(
        self, state: HeadState, heads: int, key: Key, weights: Weights, *, source: Key | None = None
    ) -> None:
        super().__init__()
        self.state, self.heads, self.key, self.source = state, heads, key, source
        self.core = Core()
        self.score_dims = dict.fromkeys((True, False), state.head_dim + state.value_dim)
        self.q = weights.matrix(heads * state.head_dim)
        if source is None:
            self.k = weights.matrix(state.kv_heads * state.head_dim)
            self.v = weights.matrix(state.kv_heads * state.value_dim)
        self.o = weights.back(heads * state.value_dim)

    def forward(self, x: Tensor, start: int, memory: Memory, extra: Tensor | None = None) -> Tensor:
        """x (batch, tokens, width), the first token at position `start` -> the same shape."""
        state = self.state
        q = rotate(by_heads(x @ self.q, self.heads), start)
        if self.source is not None:
            seen = memory.seen[self.source]
        else:
            k = rotate(by_heads(x @ self.k, state.kv_heads), start)
            v = by_heads(x @ self.v, state.kv_heads)
            seen = memory.extend(self.key, state, (k, v), start)
        mask = visible(state, start, x.shape[1], seen.first, x.device)
        return self._attend(q, seen, scored(mask, extra))

    def _attend(self, q: Tensor, seen: Seen, mask: Tensor | None) -> Tensor:
        k, v = (row.transpose(1, 2) for row in seen.rows)
        scale = SHARPNESS * self.state.head_dim**-0.5
        out: Tensor = self.core(q.transpose(1, 2), k, v, mask, scale)
        return out.transpose(1, 2).flatten(-2) @ self.o


class CrossAttention(HeadAttention):
    """Attention to an encoder's output: its K and V are computed once and kept."""

    def __init__(
        self, state: HeadState, heads: int, key: Key, weights: Weights, *, encoder: Tensor
    ) -> None:
        super().__init__(state, heads, key, weights)
        self.encoder = encoder  # (batch, encoder tokens, width)

    def forward(self, x: Tensor, start: int, memory: Memory, extra: Tensor | None = None) -> Tensor:
        """x (batch, tokens, width) -> the same shape."""
        count = self.state.kv_heads

        def rows() -> tuple[Tensor, Tensor]:
            k, v = self.encoder @ self.k, self.encoder @ self.v
            return rotate(by_heads(k, count), 0), by_heads(v, count)

        q = by_heads(x @ self.q, self.heads)
        return self._attend(q, memory.once(self.key, rows), None)
