"""What is laid out beside what `size` printed: bytes of all tensors of all ranks against figures.

The tensors come from the layout, the figures from elsewhere, so a layer, a head, a rank or a block
that gets lost between the two shows:

    logical      the logical figure, from bytes per entry x entries            no tolerance
    paged pools  num_blocks x the bytes of a block, on every rank              no tolerance
    others       the engine's own sum, where it prints one                     no tolerance

An engine's figure is held from below too: less than the model must keep needs a reason. Known
are: the step to come brings the last token of a window along, indexer keys are kept in 8 bits with
a scale, and what is float32 in the model (all of it, or its recurrent matrices) is kept in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvplan.checks import Check, RankReport, compare, undecided
from kvplan.engines.layout import CacheLayout
from kvplan.engines.logical import StateShare
from kvplan.plan.size import SizeResult
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
)
from kvplan.units import format_count

_INDEX_KEY_BYTES = 1  # of an element, its scale aside
_HALF = 2  # float32 kept in 16 bits
# Options with which an engine keeps its cache in a format that the logical figure is not in.
_OWN_FORMATS = {"cache_implementation": "quantized", "cache_type_k": None, "cache_type_v": None}


def layout_checks(
    planned: SizeResult, layout: CacheLayout, reports: Sequence[RankReport]
) -> list[Check]:
    """`layout_bytes`, and for an engine's layout `model_bytes` too.

    Args:
        planned: what `size` says of the request.
        layout: the tensors that should be allocated for it.
        reports: what each rank found; those that are lost say nothing, and have failed elsewhere.
    """
    measured = _measured(layout, reports)
    if planned.allocated is None:
        why = "all tensors of all ranks; predicted: the logical figure, entries x bytes of an entry"
        return [compare("layout_bytes", planned.logical.bytes, measured, why)]
    return [_engine(planned, planned.allocated, measured), _floor(planned, layout, measured)]


def _measured(layout: CacheLayout, reports: Sequence[RankReport]) -> int | None:
    """Bytes of all real tensors; None while not every rank has made all of its own."""
    found = [check for report in reports for check in report.checks]
    if any(check.name == "out_of_memory" for check in found):
        return None
    sums = [check.measured for check in found if check.name == "tensor_bytes"]
    whole = [count for count in sums if isinstance(count, int)]
    return sum(whole) if len(whole) == layout.rank_count else None


def _engine(planned: SizeResult, printed: CacheLayout, measured: int | None) -> Check:
    """The engine's own figure, as `size` prints it: its blocks, or its sum."""
    asked, blocks, stages = planned.request, printed.num_blocks, printed.bytes_per_block
    if blocks is not None and stages:
        ranks = asked.tp * asked.dp
        shown = " / ".join(f"{size:,}" for size in dict.fromkeys(stages))
        on = format_count(printed.rank_count, "rank")
        why = f"num_blocks {blocks:,} x {shown} B of a block, on each of {on}"
        found = compare("layout_bytes", blocks * sum(stages) * ranks, measured, why)
        return found if printed.rank_count == ranks * len(stages) else replace(found, ok=False)
    if printed.stated_bytes is not None:
        why = f"all tensors of all ranks; predicted: {printed.engine}'s own sum"
        return compare("layout_bytes", printed.stated_bytes, measured, why)
    why = f"{printed.engine} {printed.version} states no figure beside its tensors"
    return undecided("layout_bytes", why, measured=measured)


def _floor(planned: SizeResult, layout: CacheLayout, measured: int | None) -> Check:
    """At least what the model must keep."""
    name, logical = "model_bytes", planned.logical
    own = next((one for one in layout.notices if one.id == "engine-format"), None)
    if own is not None:
        return undecided(name, own.message, measured=measured)
    options = {key.replace("-", "_"): value for key, value in planned.request.options.items()}
    for option, value in _OWN_FORMATS.items():
        if option in options and value in (None, options[option]):
            why = f"{option} {options[option]} is another format than the logical figure's"
            return undecided(name, why, measured=measured)
    why = "the least that every sequence's tokens take, whatever the engine adds to it"
    reasons: list[str] = []
    least = logical.batch * sum(_least(share, planned, reasons) for share in logical.shares)
    if least != logical.bytes:
        why += f": the logical {logical.bytes:,} B, but {', '.join(dict.fromkeys(reasons))}"
    return Check(
        name=name,
        predicted=f">= {least:,}",
        measured=measured,
        difference=None if measured is None else measured - least,
        tolerance=None,
        ok=None if measured is None else measured >= least,
        why=why,
    )


def _least(share: StateShare, planned: SizeResult, reasons: list[str]) -> int:
    """Bytes of one sequence that any engine keeps for a kind of state."""
    entry, entries, state = share.entry_bytes, share.entries, share.state
    for least, why in _smaller_entry(share, planned):
        entry = min(entry, least)
        reasons.append(why)
    if isinstance(state, CrossAttention) and entries > planned.logical.ctx:
        entries = planned.logical.ctx
        reasons.append("an encoder's tokens may be counted up to the request's")
    windowed = isinstance(state, SlidingAttention | ChunkedAttention | CompressedLatent)
    if windowed and entries:
        entries -= 1
        reasons.append("the next step brings the last token of a window along")
    return share.layers * entries * entry


def _smaller_entry(share: StateShare, planned: SizeResult) -> Iterator[tuple[int, str]]:
    state, dtypes = share.state, planned.logical.dtypes
    if isinstance(state, Indexer):
        elements = state.kv_heads * state.head_dim
        yield elements * _INDEX_KEY_BYTES, "indexer keys may be kept in 8 bits"
    elif isinstance(state, HeadState | LatentAttention) and dtypes.k.name == "float32":
        yield share.entry_bytes // _HALF, "engines run float32 in 16 bits"
    elif isinstance(state, RecurrentState) and state.matrix_dtype().name == "float32":
        matrix = state.matrix_dtype().vectors_bytes(1, state.matrix_elements)
        columns = share.entry_bytes - matrix
        wide = bool(columns) and state.column_dtype(dtypes).name == "float32"
        least = matrix // _HALF + (columns // _HALF if wide else columns)
        yield least, "engines may keep recurrent matrices in 16 bits"
