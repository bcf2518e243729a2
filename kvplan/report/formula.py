"""The figures as products with this model's numbers in them, in one line or factor by factor.

Whatever is written multiplies to the exact bytes. Where blocks of a format do not divide what one
token stores, or formats and widths of K and V both differ, the last factor is the bytes of one
token, with the parts of their sum behind it.
"""

from __future__ import annotations

from math import lcm

from kvplan.arithmetic import ceil_div
from kvplan.dtypes import CacheDTypes, DType
from kvplan.engines.logical import LogicalCache, StateShare
from kvplan.named_tuple import NamedTuple
from kvplan.spec.states import Factor, HeadState, SharedCache, State
from kvplan.units import format_count


class Part(NamedTuple):
    """One factor: how it is written, how a formula calls it, and what it is in words."""

    value: str
    symbol: str
    meaning: str


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
    if logical.batch == 1:
        return total
    return f"{logical.batch:,} x {total}" if len(terms) == 1 else f"{logical.batch:,} x [{total}]"


def kind_name(state: State) -> str:
    """A kind in a table, with what tells it from another row of the same kind."""
    return f"{state.kind}, {state.detail}" if state.detail else state.kind


def _term(share: StateShare, dtypes: CacheDTypes) -> str:
    layers = format_count(share.layers, "layer")
    if share.state.fixed:
        return f"{layers} x {share.entry_bytes:,} B state"
    entry = " x ".join(f"{part.value} {part.symbol}".strip() for part in parts(share.state, dtypes))
    return f"{layers} x {format_count(share.entries, 'token')} x ({entry})"


def parts(state: State, dtypes: CacheDTypes) -> list[Part]:
    """The bytes of one entry of a state that is not fixed, factor by factor."""
    if isinstance(state, HeadState):
        return _of_heads(state, dtypes)
    elements = 1
    for factor in state.factors:
        elements *= factor.value
    whole = state.entry_bytes(dtypes)
    if not _exact(dtypes.k, elements):
        stored = _stored(dtypes.k, elements, whole)
        return [Part(f"{whole:,} B", f"({stored})", f"one entry: {stored}")]
    return [*map(_part, state.factors), _element(dtypes.k)]


def _of_heads(state: HeadState, dtypes: CacheDTypes) -> list[Part]:
    k, v, heads = dtypes.k, dtypes.v, state.kv_heads
    alike = state.head_dim == state.value_dim
    if k == v and alike and k.vector_bytes and not state.head_dim % k.block_elements:
        vector = k.vectors_bytes(1, state.head_dim)
        sum_ = f"{state.head_dim} head_dim x {_size(k)} B + {k.vector_bytes} B per head"
        return [
            *map(_part, state.factors[:2]),
            Part(f"{vector:,} B", f"({sum_})", f"one head: {sum_}"),
        ]
    if not _exact(k, heads * state.head_dim) or not _exact(v, heads * state.value_dim):
        amounts = [
            (name, dtype.vectors_bytes(heads, dim), dtype)
            for name, dtype, dim in (("K", k, state.head_dim), ("V", v, state.value_dim))
        ]
        whole = sum(amount for _, amount, _ in amounts)
        sum_ = " + ".join(f"{name} {amount:,} in {dtype.name}" for name, amount, dtype in amounts)
        return [Part(f"{whole:,} B", f"({sum_})", f"one token: {sum_}")]
    if k == v:
        return [*map(_part, state.factors), _element(k)]
    each = Part(f"{heads:,}", "kv_heads", "kv_heads: key/value heads")
    sums = f"K {_size(k)} + V {_size(v)}"
    if alike:
        below = lcm(k.block_elements, v.block_elements)
        above = sum(dtype.block_bytes * below // dtype.block_elements for dtype in (k, v))
        both = f"{above}/{below} B" if below > 1 else f"{above} B"
        elements = Part(f"{state.head_dim:,}", "head_dim", "head_dim: elements")
        return [each, elements, Part(both, f"({sums})", f"per element: {sums}")]
    whole = state.entry_bytes(dtypes)
    sums = f"K {state.head_dim} x {_size(k)} + V {state.value_dim} x {_size(v)}"
    if whole % heads:
        return [Part(f"{whole:,} B", f"({heads} x ({sums}))", f"one token: {heads} x ({sums})")]
    return [each, Part(f"{whole // heads:,} B", f"({sums})", f"per head: {sums}")]


def state_sum(state: State, dtypes: CacheDTypes) -> str:
    """The bytes of a fixed state as a sum: `512 channels x 3 columns x 2 B + 4 x 64 x 64 x 4 B`."""
    from kvplan.spec.recurrent import RecurrentState

    assert isinstance(state, RecurrentState)
    terms = []
    if state.conv_elements:
        columns, name = state.columns
        size = _size(state.column_dtype(dtypes))
        terms.append(f"{state.conv_elements // columns:,} channels x {columns} {name} x {size} B")
    if state.matrix_elements:
        shape = " x ".join(f"{size:,}" for size in state.matrix_shape)
        terms.append(f"{shape} x {_size(state.matrix_dtype())} B")
    return " + ".join(terms)


def _part(factor: Factor) -> Part:
    words = factor.meaning
    if factor.symbol and not factor.symbol.startswith("("):  # in brackets it is the meaning itself
        words = f"{factor.symbol}: {factor.meaning}"
    return Part(f"{factor.value:,}", factor.symbol, words)


def _exact(dtype: DType, elements: int) -> bool:
    """Whether elements times bytes per element is what is stored."""
    return not dtype.vector_bytes and not elements % dtype.block_elements


def _element(dtype: DType) -> Part:
    return Part(f"{_size(dtype)} B", "", "per element")


def _size(dtype: DType) -> str:
    """Bytes of one element: `2`, `34/32`."""
    if dtype.block_elements == 1:
        return f"{dtype.block_bytes}"
    return f"{dtype.block_bytes}/{dtype.block_elements}"


def _stored(dtype: DType, elements: int, whole: int) -> str:
    """How elements are stored whose bytes are no plain product."""
    blocks = ceil_div(elements, dtype.block_elements)
    if dtype.block_elements == 1:
        text = f"{elements:,} elements x {_size(dtype)} B"
    else:
        text = f"{blocks:,} blocks of {dtype.block_elements} elements x {dtype.block_bytes} B"
    scales = whole - blocks * dtype.block_bytes
    return f"{text} + {scales} B" if scales else text


def average_per_token(logical: LogicalCache) -> float | None:
    """Bytes that one more token adds on average; None where every token adds the same.

    Some states add an entry once in `period` tokens only, so what the next one adds is 0 or a lump.
    """
    if all(share.state.period == 1 for share in logical.shares):
        return None
    total = 0.0
    for share in logical.shares:
        period = share.state.period
        if period == 1:
            total += share.bytes_per_token
        else:
            later = share.state.entries(logical.ctx + period, 0)
            total += share.layers * share.entry_bytes * (later - share.entries) / period
    return total
