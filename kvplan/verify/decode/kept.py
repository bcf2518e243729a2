"""What one layer keeps, in shapes: rows that come with every token, or pieces that are replaced.

A full-attention layer keeps two kinds of row per token, K (kv_heads, head_dim) and V; a latent
layer one, (1, kv_lora_rank + qk_rope_head_dim); an indexer its keys. A recurrent layer
keeps pieces: its last convolution columns and its matrix. All are read off the state's fields,
never off the planner's byte formulas, so that their bytes can be held against those.
"""

from __future__ import annotations

import torch

from kvplan.dtypes import CacheDTypes
from kvplan.named_tuple import NamedTuple
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    ChunkedAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
    State,
)
from kvplan.verify.decode.facts import column_format, columns_of, matrix_format, matrix_of
from kvplan.verify.decode.formats import Format, format_of


class Vectors(NamedTuple):
    """One kind of row per token: a vector of `dim` elements for each of `heads`.

    `parts` are the vectors that lie side by side in one, each with the elements it ends before.
    """

    heads: int
    dim: int
    format: Format
    parts: tuple[tuple[str, int], ...]


class Piece(NamedTuple):
    """One tensor per sequence, whatever the number of tokens."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def vectors_of(state: State, dtypes: CacheDTypes) -> tuple[Vectors, ...]:
    """The rows that a state keeps per token; () for one of fixed size."""
    if isinstance(state, HeadState):
        return (
            _whole("K", state.kv_heads, state.head_dim, format_of(dtypes.k)),
            _whole("V", state.kv_heads, state.v_head_dim or state.head_dim, format_of(dtypes.v)),
        )
    if isinstance(state, LatentAttention):
        rank, rope = state.kv_lora_rank, state.qk_rope_head_dim
        parts = (("latent", rank), ("rotary key", rank + rope))
        return (Vectors(1, rank + rope, format_of(dtypes.k), parts),)
    if isinstance(state, Indexer):
        return (_whole("indexer key", state.kv_heads, state.head_dim, format_of(dtypes.k)),)
    return ()


def _whole(name: str, heads: int, dim: int, format_: Format) -> Vectors:
    return Vectors(heads, dim, format_, ((name, dim),))


def pieces_of(state: State, dtypes: CacheDTypes) -> tuple[Piece, ...]:
    """The tensors of a state of fixed size: columns (kernel - 1, channels), then the matrix."""
    if not isinstance(state, RecurrentState):
        return ()
    pieces = []
    columns, matrix = columns_of(state), matrix_of(state)
    if columns is not None:
        pieces.append(Piece(columns, getattr(torch, column_format(state, dtypes))))
    if matrix is not None:
        pieces.append(Piece(matrix, getattr(torch, matrix_format(state))))
    return tuple(pieces)


def span_of(state: State) -> int | None:
    """Positions a state keeps at most: its window or chunk; None when it keeps all."""
    if isinstance(state, SlidingAttention):
        return state.window
    return state.chunk if isinstance(state, ChunkedAttention) else None


def first_visible(state: State, position: int) -> int:
    """The earliest position that the token at `position` attends to."""
    if isinstance(state, SlidingAttention):
        return max(0, position - state.window + 1)
    if isinstance(state, ChunkedAttention):
        return position // state.chunk * state.chunk
    return 0
