"""The whole figure in one line, with this model's numbers in it."""

from __future__ import annotations

from kvplan.dtypes import CacheDTypes, DType
from kvplan.engines.logical import LogicalCache, StateShare
from kvplan.spec.states import HeadState, SharedCache
from kvplan.units import format_count


def formula(logical: LogicalCache) -> str:
    """`32 x 32 layers x 131,072 tokens x (2 x 8 kv_heads x 128 head_dim x 2 B)`: batch first."""
    terms = [
        _term(share, logical.dtypes)
        for share in logical.shares
        if not isinstance(share.state, SharedCache)
    ]
    if not terms:
        return "0: no layer keeps anything"
    total = " + ".join(terms)
    if len(terms) > 1:
        total = f"[{total}]"
    return f"{logical.batch:,} x {total}" if logical.batch > 1 or len(terms) > 1 else total


def _term(share: StateShare, dtypes: CacheDTypes) -> str:
    state = share.state
    layers = format_count(share.layers, "layer")
    if state.fixed:
        return f"{layers} x {share.entry_bytes:,} B state"
    value = dtypes.v if isinstance(state, HeadState) else dtypes.k
    if value == dtypes.k:
        entry = f"{state.formula} x {element(dtypes.k)}"
    else:
        entry = f"{share.entry_bytes:,} B for K in {dtypes.k.name} and V in {value.name}"
    return f"{layers} x {format_count(share.entries, 'token')} x ({entry})"


def element(dtype: DType) -> str:
    """Bytes of one element in words: `2 B`, `34/32 B`, `1 B (+ 4 B per head)`."""
    if dtype.block_elements == 1:
        text = f"{dtype.block_bytes} B"
    else:
        text = f"{dtype.block_bytes}/{dtype.block_elements} B"
    return f"{text} (+ {dtype.vector_bytes} B per vector)" if dtype.vector_bytes else text
