"""Damage to one piece of a cache that is really read: what a comparison must notice.

    overwritten     one vector (K, V, latent, rotary key, indexer key) of one entry, or of a block
                    of them, holds noise
    wrong table     one entry of the block table names a block of the other sequence
    wrong scales    the scales of one vector are eight times too large, over a block
    wrong state     a recurrent matrix, or one column of a convolution, is the other sequence's

What to damage takes care: damage behind a window that has moved on changes nothing, and rightly so.
Hit is the oldest entry that the next token still sees and, under a window, no later one: a window
that is read one token short then shows. Only the first sequence is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kvplan.named_tuple import NamedTuple
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import ChunkedAttention, CrossAttention, SlidingAttention, State
from kvplan.verify.decode.facts import columns_of, matrix_of
from kvplan.verify.decode.kept import vectors_of
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.memory import Cache, Key
from kvplan.verify.decode.reference import states_of
from kvplan.verify.decode.storage import Rows

OVERWRITTEN, WRONG_TABLE, WRONG_SCALES = "overwritten", "wrong table", "wrong scales"
WRONG_STATE = "wrong state"
_BLOCK = 16  # entries of contiguous storage that are damaged together, as many as a usual block
_NOISE = 4.0  # spreads, over a block
_NOISE_ALONE = 16.0  # over a single entry, to which little attention may fall


class Damage(NamedTuple):
    """One piece, and what is done to it.

    Attributes:
        key: the state.
        what: one of the words above.
        where: the piece, in words.
        place: kind of row and its first and last element; or the piece of a fixed state, and the
            column of it or -1 for all.
        run: first and last + 1 position; empty for a fixed state.
    """

    key: Key
    what: str
    where: str
    place: tuple[int, int, int]  # the elements' bounds are -1 for all of a fixed state
    run: tuple[int, int] = (0, 0)


def oldest_seen(state: State, position: int) -> int:
    """The oldest position that the token at `position` attends to, by the model's own facts."""
    if isinstance(state, SlidingAttention):
        return max(0, position - (state.window - 1))
    if isinstance(state, ChunkedAttention):
        return position - position % state.chunk
    return 0


def damages(layout: Layout, held: int) -> Iterator[Damage]:
    """Every piece of a layout that the token at position `held` reads, each to be damaged alone."""
    for key, state in states_of(layout.spec):
        name = f"{state.kind} of layer {key.layer}"
        if isinstance(state, RecurrentState):
            yield from _of_fixed(key, state, name, each_column=layout.exact)
        else:
            yield from _of_rows(layout, key, state, name, held)


def _of_fixed(key: Key, state: RecurrentState, name: str, *, each_column: bool) -> Iterator[Damage]:
    columns = columns_of(state)
    many = columns[0] if columns is not None else 0
    if many and not each_column:
        yield Damage(key, WRONG_STATE, f"the columns of {name}", (0, -1, -1))
    for column in range(many if each_column else 0):
        which = "the oldest column" if not column else f"column {column + 1}"
        yield Damage(key, WRONG_STATE, f"{which} of {name}", (0, column, column))
    if matrix_of(state) is not None:
        yield Damage(key, WRONG_STATE, f"the matrix of {name}", (int(many > 0), -1, -1))


def _of_rows(layout: Layout, key: Key, state: State, name: str, held: int) -> Iterator[Damage]:
    rows = layout.tokens_of(state, held)
    first = 0 if isinstance(state, CrossAttention) else min(oldest_seen(state, held), rows - 1)
    block = layout.block_size or _BLOCK
    if layout.exact and layout.block_size is not None:
        end = min(first + block, rows)
        yield Damage(key, WRONG_TABLE, name, (0, 0, 0), (first, end))
        return
    end = min(first + (1 if layout.exact else block), rows)
    for kind, vectors in enumerate(vectors_of(state, layout.dtypes)):
        scaled = layout.block_size is None and vectors.format.scale is not None
        if scaled:
            yield Damage(
                key, WRONG_SCALES, f"{vectors.parts[0][0]} of {name}", (kind, 0, 0), (first, end)
            )
        start = 0
        for part, stop in vectors.parts:
            where = f"{'the oldest ' if layout.exact else ''}{part} of {name}"
            yield Damage(key, OVERWRITTEN, where, (kind, start, stop), (first, end))
            start = stop


def apply(cache: Cache, damage: Damage) -> None:
    """Damage one piece of the first sequence."""
    kind, start, stop = damage.place
    if damage.what == WRONG_STATE:
        piece = cache.fixed[damage.key].pieces[kind]
        if start < 0:
            piece[0] = piece[1]
        else:
            piece[0, start] = piece[1, start]
        return
    store = cache.rows[damage.key]
    first, end = damage.run
    if damage.what == WRONG_TABLE:
        table, size = store.placement.table, store.placement.block_size
        block = (end - 1) // size % table.shape[1]
        table[0, block] = table[1, block]
        return
    slots = store.placement.slots_of(first, end)[0]
    if damage.what == WRONG_SCALES:
        _enlarge_scales(store, kind, slots)
    else:
        _overwrite(store, kind, slots, start, stop)


def _overwrite(store: Rows, kind: int, slots: torch.Tensor, start: int, stop: int) -> None:
    """Noise in the elements start .. stop - 1 of one kind of row; the others keep their values."""
    vectors, pools = store.vectors[kind], store.pools[kind]
    rows = vectors.format.decode(tuple(pool[slots] for pool in pools), vectors.heads, vectors.dim)
    lot = torch.Generator().manual_seed(1)
    strength = _NOISE_ALONE if len(slots) == 1 else _NOISE
    noise = torch.randn(len(slots), vectors.heads, stop - start, generator=lot)
    rows[..., start:stop] = strength * noise.to(rows.device)
    for pool, code in zip(pools, vectors.format.encode(rows), strict=True):
        pool[slots] = code


def _enlarge_scales(store: Rows, kind: int, slots: torch.Tensor) -> None:
    scale, pools = store.vectors[kind].format.scale, store.pools[kind]
    assert scale is not None
    pools[1][slots] = scale.pack(8 * scale.unpack(pools[1][slots]))
