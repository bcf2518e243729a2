"""Damage to one piece of a cache that is really read: what a comparison must notice.

    overwritten     the entries of one block hold noise of four times their spread
    wrong table     one entry of the block table names a block of the other sequence
    wrong scales    the scales of one block are eight times too large
    wrong state     a recurrent state is the other sequence's

What to damage takes care: damage behind a window that has moved on changes nothing, and rightly so.
Hit are the oldest entries that the last token of the run still sees, and only the first sequence's.
"""

from __future__ import annotations

import torch

from kvplan.spec.states import CrossAttention, State
from kvplan.verify.decode.kept import first_visible
from kvplan.verify.decode.memory import Cache, Key
from kvplan.verify.decode.storage import Rows

OVERWRITTEN, WRONG_TABLE, WRONG_SCALES = "overwritten", "wrong table", "wrong scales"
WRONG_STATE = "wrong state"
_BLOCK = 16  # entries of contiguous storage that are damaged together, as many as a usual block


def read_run(state: State, held: int, last: int, size: int) -> tuple[int, int]:
    """(first, end) of the oldest `size` of `held` positions that the token at `last` sees."""
    first = 0 if isinstance(state, CrossAttention) else min(first_visible(state, last), held - 1)
    return first, min(first + size, held)


def damage_rows(cache: Cache, key: Key, run: tuple[int, int], what: str) -> None:
    """Damage the entries of the positions first .. end - 1 of the first sequence."""
    store, (first, end) = cache.rows[key], run
    if what == WRONG_TABLE:
        table, size = store.placement.table, store.placement.block_size
        block = (end - 1) // size % table.shape[1]
        table[0, block] = table[1, block]
        return
    slots = store.placement.slots_of(first, end)[0]
    if what == WRONG_SCALES:
        _enlarge_scales(store, slots)
        return
    lot = torch.Generator().manual_seed(1)
    for one, pools in zip(store.vectors, store.pools, strict=True):
        noise = 4 * torch.randn(len(slots), one.heads, one.dim, generator=lot)
        for pool, code in zip(pools, one.format.encode(noise.to(slots.device)), strict=True):
            pool[slots] = code


def damage_piece(cache: Cache, key: Key, piece: int) -> None:
    """Give the first sequence the other's piece of a recurrent state."""
    pieces = cache.fixed[key].pieces
    pieces[piece][0] = pieces[piece][1]


def block_of(store: Rows, contiguous: bool) -> int:
    """Entries that are damaged together."""
    return _BLOCK if contiguous else store.placement.block_size


def has_scales(store: Rows) -> bool:
    """Whether a stored scale can be wrong."""
    return any(one.format.scale is not None for one in store.vectors)


def _enlarge_scales(store: Rows, slots: torch.Tensor) -> None:
    for one, pools in zip(store.vectors, store.pools, strict=True):
        scale = one.format.scale
        if scale is not None:
            pools[1][slots] = scale.pack(8 * scale.unpack(pools[1][slots]))
