"""The storage of one state: a pool of slots for rows, or the pieces of a fixed state.

A pool is a handful of tensors whose first dimension is the slot; a `Placement` says which slot a
token has. Unwritten slots hold NaN where the format has one, so that reading one shows in the
logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from kvplan.verify.decode.kept import Piece, Vectors
from kvplan.verify.decode.placement import Placement


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


class Rows:
    """Slots that take one row of each kind per token."""

    def __init__(self, vectors: Sequence[Vectors], placement: Placement) -> None:
        self.vectors = tuple(vectors)
        self.placement = placement
        self.pools = [_pools(one, placement) for one in self.vectors]

    @property
    def bytes(self) -> int:
        """Bytes of the tensors' storages."""
        return sum(_bytes(tensors) for tensors in self.pools)

    def copy(self) -> Rows:
        """The same content, in storage of its own."""
        found = copy(self)
        found.placement = self.placement._replace(table=self.placement.table.clone())
        found.pools = [tuple(pool.clone() for pool in pools) for pools in self.pools]
        return found

    def read(self, first: int, last: int) -> tuple[Tensor, ...]:
        """Rows of the positions first .. last - 1, each (batch, tokens, count, dim)."""
        slots = self.placement.slots_of(first, last)
        return tuple(
            one.format.decode(tuple(pool[slots] for pool in pools), one.heads, one.dim)
            for one, pools in zip(self.vectors, self.pools, strict=True)
        )

    def write(self, rows: Sequence[Tensor], first: int) -> None:
        """Store rows (batch, tokens, count, dim) at the positions first, first + 1, ..."""
        slots = self.placement.slots_of(first, first + rows[0].shape[1])
        for one, pools, row in zip(self.vectors, self.pools, rows, strict=True):
            for pool, code in zip(pools, one.format.encode(row), strict=True):
                pool[slots] = code


def _pools(vectors: Vectors, placement: Placement) -> tuple[Tensor, ...]:
    """Tensors (slots, ...) for the codes of one kind of row, full of NaN."""
    device = placement.table.device
    sample = vectors.format.encode(torch.ones(vectors.heads, vectors.dim, device=device))
    # 127 is the NaN of an e4m3 float; integers have none, and get their largest value.
    return tuple(
        code.new_full(
            (placement.slots, *code.shape), torch.nan if code.is_floating_point() else 127
        )
        for code in sample
    )


class Fixed:
    """The pieces of a recurrent state, zero before the first token."""

    def __init__(self, pieces: Sequence[Piece], batch: int, device: str) -> None:
        self.pieces = tuple(
            torch.zeros(batch, *piece.shape, dtype=piece.dtype, device=device) for piece in pieces
        )

    @property
    def bytes(self) -> int:
        """Bytes of the tensors' storages."""
        return _bytes(self.pieces)

    def copy(self) -> Fixed:
        """The same content, in storage of its own."""
        found = copy(self)
        found.pieces = tuple(piece.clone() for piece in self.pieces)
        return found

    def read(self) -> tuple[Tensor, ...]:
        """The pieces (batch, ...) in float32."""
        return tuple(piece.float() for piece in self.pieces)

    def write(self, values: Sequence[Tensor]) -> None:
        """Replace the pieces; each is rounded to its format."""
        for piece, value in zip(self.pieces, values, strict=True):
            piece.copy_(value.reshape(piece.shape))
