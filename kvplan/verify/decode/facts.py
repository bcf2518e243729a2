"""Widths of recurrent states from the model's own facts, spelt out family by family.

The planner has properties that say the same (`conv_channels`, `matrix_shape`, `matrix_dtype`). They
are what is being checked, so nothing here asks them.

    columns   (conv_kernel - 1, channels), in the format the spec names, else the model's own
    matrix    heads x keys x values, in the format the spec names, else float32
"""

from __future__ import annotations

from kvplan.dtypes import CacheDTypes, find_dtype
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    RecurrentState,
    ShortConvolution,
)


def columns_of(state: RecurrentState) -> tuple[int, int] | None:
    """(columns, channels) that a convolution keeps; None without one."""
    channels = channels_of(state)
    if not channels or not state.conv_kernel or state.conv_kernel < 2:
        return None
    return state.conv_kernel - 1, channels


def channels_of(state: RecurrentState) -> int:
    """Channels of the convolution, 0 without one."""
    if isinstance(state, Mamba1):
        return state.intermediate_size
    if isinstance(state, Mamba2):
        return state.num_heads * state.head_dim + 2 * state.n_groups * state.state_size  # x, B, C
    if isinstance(state, GatedDeltaNet):
        return 2 * state.k_heads * state.k_head_dim + state.v_heads * state.v_head_dim  # q, k, v
    if isinstance(state, KimiDeltaAttention):
        return 3 * state.num_heads * state.head_dim  # q, k, v
    if isinstance(state, LinearRecurrentUnit):
        return state.width
    return state.channels if isinstance(state, ShortConvolution) else 0


def matrix_of(state: RecurrentState) -> tuple[int, ...] | None:
    """Shape of the matrix that is carried along; None without one."""
    if isinstance(state, Mamba1):
        return state.intermediate_size, state.state_size
    if isinstance(state, Mamba2):
        return state.num_heads, state.state_size, state.head_dim
    if isinstance(state, GatedDeltaNet):
        return state.v_heads, state.k_head_dim, state.v_head_dim
    if isinstance(state, (KimiDeltaAttention, LightningAttention)):
        return state.num_heads, state.head_dim, state.head_dim
    return (state.width,) if isinstance(state, LinearRecurrentUnit) else None


def matrix_format(state: RecurrentState) -> str:
    """Name of the matrix's format."""
    return _name(state.dtype) or "float32"


def column_format(state: RecurrentState, dtypes: CacheDTypes) -> str:
    """Name of the columns' format."""
    return _name(state.conv_dtype) or dtypes.model.name


def _name(text: str | None) -> str | None:
    found = find_dtype(text) if text is not None else None
    return found.name if found is not None else None
