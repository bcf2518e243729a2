"""Where the entry of a token lies: (sequence, position) -> slot, a row of the storage.

    in a row            slot = sequence x tokens + position
    in a ring           slot = sequence x span   + position mod span        span: window or chunk
    in shuffled blocks  slot = table[sequence, position div block] x block + position mod block

Paged storage keeps as many blocks as a span can touch, for it may start in the middle of one:
window 5 and blocks of 4 need two, [xxxA][BCDE]. Their table is used as a ring.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kvplan.arithmetic import ceil_div
from kvplan.named_tuple import NamedTuple


class Placement(NamedTuple):
    """A map from positions to slots.

    Attributes:
        table: (batch, blocks) first slot of each block of each sequence.
        block_size: slots per block.
        span: positions kept; None keeps all of them.
    """

    table: Tensor
    block_size: int
    span: int | None

    @property
    def slots(self) -> int:
        """Slots of the storage, over all sequences."""
        return self.table.numel() * self.block_size

    def slots_of(self, first: int, last: int) -> Tensor:
        """(batch, last - first) slots of the positions first .. last - 1.

        Raises:
            IndexError: a position beyond the storage.
        """
        blocks = self.table.shape[1]
        kept = blocks * self.block_size
        if last > kept and (self.span is None or kept < self.span):
            raise IndexError(f"position {last - 1} lies beyond storage of {kept:,} positions")
        positions = torch.arange(first, last, device=self.table.device)
        block = positions.div(self.block_size, rounding_mode="floor") % blocks
        return self.table[:, block] + positions % self.block_size


def in_a_row(batch: int, tokens: int, span: int | None, device: str) -> Placement:
    """Contiguous storage of each sequence: a row, or a ring where `span` positions are kept."""
    size = tokens if span is None else min(tokens, span)
    table = torch.arange(batch, device=device).unsqueeze(1) * size
    return Placement(table, size, span)


def blocks_of(tokens: int, span: int | None, block_size: int) -> int:
    """Blocks that one sequence of `tokens` tokens takes."""
    blocks = ceil_div(tokens, block_size)
    return blocks if span is None else min(blocks, ceil_div(span - 1, block_size) + 1)


def in_blocks(
    batch: int, tokens: int, span: int | None, block_size: int, seed: int, device: str
) -> Placement:
    """Paged storage: the blocks of all sequences in an order drawn by lot."""
    blocks = blocks_of(tokens, span, block_size)
    lot = torch.Generator().manual_seed(seed)
    order = torch.randperm(batch * blocks, generator=lot).view(batch, blocks)
    return Placement(order.to(device) * block_size, block_size, span)
