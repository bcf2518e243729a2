"""Storage against its length: it must grow by exactly the predicted bytes per token.

Storage is allocated for several lengths; the bytes of its tensors are fitted by least squares (in
fractions, so the slope of a straight line is exact), and each is compared with the planner's own
figure for that length. Up to the shortest window all layers grow; beyond it those with a window no
longer do, so each stretch between two windows is a line of its own.

In blocks, storage grows by whole blocks: lengths are multiples of the block, where both figures
meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvplan.arithmetic import ceil_div
from kvplan.checks import Check
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.spec.states import CrossAttention, State
from kvplan.verify.decode.cut import BATCH
from kvplan.verify.decode.kept import span_of
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.memory import Cache
from kvplan.verify.decode.placement import blocks_of
from kvplan.verify.decode.reference import states_of

_POINTS = 5
_BEYOND = 64  # tokens that are tried beyond the last window


def stretches(states: Sequence[State]) -> list[tuple[int, int]]:
    """(first, last) lengths between which every layer either grows or does not."""
    spans = sorted({span for state in states if (span := span_of(state)) is not None})
    return list(zip([1, *spans], [*spans, (spans[-1] if spans else 0) + _BEYOND], strict=True))


def slope(points: Sequence[tuple[int, int]]) -> Fraction:
    """The slope of the least-squares line through (length, bytes)."""
    many = len(points)
    mean_x, mean_y = (Fraction(sum(column), many) for column in zip(*points, strict=True))
    return sum(((x - mean_x) * (y - mean_y) for x, y in points), Fraction()) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )


def growth(layout: Layout, device: str) -> list[Check]:
    """The checks of one layout: a line per stretch, or the line of whole blocks."""
    if layout.block_size is not None:
        return [_blocks(layout, layout.block_size, device)]
    found = []
    for number, (first, last) in enumerate(stretches(list(layout.spec.states()))):
        lengths = sorted({first + (last - first) * i // (_POINTS - 1) for i in range(_POINTS)})
        where = f"{first:,} to {last:,} tokens"
        name = "bytes_per_token_slope" + (f"[{where}]" if number else "")
        if len(lengths) > 1:
            found.append(_line(name, layout, lengths, where, device))
    return found


def _blocks(layout: Layout, size: int, device: str) -> Check:
    """Whole blocks below the first window, or beyond the last where that is under two blocks."""
    states = list(layout.spec.states())
    first, last = stretches(states)[0]
    start = 1
    if last < 2 * size:
        first, last = stretches(states)[-1]
        start, last = ceil_div(first, size) + 1, last + _POINTS * size
    lengths = [size * blocks for blocks in range(start, start + _POINTS) if size * blocks <= last]
    where = f"whole blocks of {size}, {lengths[0]:,} to {lengths[-1]:,} tokens"
    return _line("bytes_per_token_slope[paged]", layout, lengths, where, device)


def _line(name: str, layout: Layout, lengths: Sequence[int], where: str, device: str) -> Check:
    points, wrong = [], []
    for length in lengths:
        cache = layout.cache(length, device)
        points.append((length, cache.bytes))
        if cache.bytes != predicted_bytes(layout, length):
            wrong.append(f"{length:,} tokens take {cache.bytes:,} B")
        elif layout.block_size is None and not _all_used(layout, cache, length):
            wrong.append(f"of {length:,} tokens some slots hold none")
    predicted = logical_cache(layout.spec, _request(layout, lengths[0])).bytes_per_token
    measured = slope(points) / BATCH
    difference = float(measured - predicted)
    why = f"{layout.name}, {where}: slope of the tensors' bytes at {len(lengths)} lengths"
    return Check(
        name=name,
        predicted=predicted,
        measured=int(measured) if measured.denominator == 1 else float(measured),
        difference=int(difference) if difference.is_integer() else difference,
        tolerance=0,
        ok=not difference and not wrong,
        why=f"{why}, each exact" if not wrong else f"{why}; {wrong[0]}",
    )


def predicted_bytes(layout: Layout, length: int) -> int:
    """The planner's figure for all sequences; entries rounded up to whole blocks where paged."""
    if layout.block_size is None:
        return logical_cache(layout.spec, _request(layout, length)).bytes
    total, size = 0, layout.block_size
    for _, states, layers in layout.spec.counted_kinds():
        for state in states:
            entries = state.entries(length, layout.spec.encoder_tokens or 0)
            if state.depends_on_context or isinstance(state, CrossAttention):
                rows, span = layout.tokens_of(state, length), span_of(state)
                entries = blocks_of(rows, span, size) * size
            total += layers * BATCH * entries * state.entry_bytes(layout.dtypes)
    return total


def _request(layout: Layout, length: int) -> Request:
    k, v = layout.dtypes.k.name, layout.dtypes.v.name
    return Request(ctx=length, batch=BATCH, dtype_k=k, dtype_v=v)


def _all_used(layout: Layout, cache: Cache, length: int) -> bool:
    """Whether each slot belongs to a token that is held, so that no byte is there for nothing."""
    states = dict(states_of(layout.spec))
    for key, store in cache.rows.items():
        rows, placement = layout.tokens_of(states[key], length), store.placement
        held = placement.slots_of(max(0, rows - placement.slots // BATCH), rows)
        if len(set(held.flatten().tolist())) != placement.slots:
            return False
    return True
