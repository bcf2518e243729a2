"""Three things that layers do to vectors: cut them into heads, norm them, turn them by position."""

from __future__ import annotations

import torch
from torch import Tensor


def by_heads(x: Tensor, heads: int) -> Tensor:
    """(..., heads * dim) -> (..., heads, dim)."""
    return x.reshape(*x.shape[:-1], heads, -1)


def normed(x: Tensor) -> Tensor:
    """x with unit mean square along its last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotate(rows: Tensor, start: int) -> Tensor:
    """Rotary position encoding of rows (batch, tokens, count, dim); an odd last element stays."""
    half = rows.shape[-1] // 2
    position = torch.arange(start, start + rows.shape[1], device=rows.device)
    frequency = 10_000.0 ** -(torch.arange(half, device=rows.device) / max(half, 1))
    angle = (position.unsqueeze(1) * frequency).unsqueeze(1)  # (tokens, 1, half)
    one, two, rest = rows[..., :half], rows[..., half : 2 * half], rows[..., 2 * half :]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((one * cos - two * sin, one * sin + two * cos, rest), dim=-1)
