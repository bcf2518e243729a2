"""Element formats at work: rows of float32 vectors to stored bytes, and back.

A row is what one token stores side by side: `count` vectors of `dim` elements. Every format is

    elements (float32, bfloat16, 8-bit float, 8-, 4-bit integer, 4-bit float)
    in groups that share a scale (none, one per vector, one per 16 or 32 elements of the row)

Stored bytes must equal `DType.vectors_bytes(count, dim)`, the planner's figure; nothing here
computes sizes, the tensors have them. Sources of the rules: the formats named in kvplan/dtypes.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from kvplan.dtypes import DType
from kvplan.named_tuple import NamedTuple

VECTOR = 0  # group size: the whole vector


class Element(NamedTuple):
    """How one number is stored: the largest value that is exact, and both directions.

    `pack` takes (..., n) float32 within +-limit and gives (..., n * bytes) uint8 or (..., n) of a
    torch float type; `unpack` undoes it.
    """

    limit: float
    pack: Callable[[Tensor], Tensor]
    unpack: Callable[[Tensor], Tensor]


class Format(NamedTuple):
    """Elements, and the group that shares a scale.

    Attributes:
        element: how one number is stored.
        group: elements per scale; VECTOR for one scale per vector; None for no stored scale.
        scale: how a scale is stored; its float32 value is what `unpack` gives back.
        fixed: the scale when none is stored, as one that comes with the weights would be.
        half_step: the largest rounding error, as a share of the largest value of a group (of
            `REACH` for integers without a stored scale).
    """

    element: Element
    group: int | None
    scale: Element | None
    fixed: float
    half_step: float

    def encode(self, rows: Tensor) -> tuple[Tensor, ...]:
        """(..., count, dim) float32 -> the stored tensors, each (..., bytes or elements)."""
        flat = rows.flatten(-2)  # (..., count * dim)
        if self.group is None or self.scale is None:
            return (self.element.pack(_clamped(flat / self.fixed, self.element)),)
        size = self.group or rows.shape[-1]
        groups = _groups(flat, size)
        largest = groups.abs().amax(-1)
        scales = self.scale.pack(largest / self.element.limit)
        # Divide by the scale as it is read back, not by the one that was meant.
        used = self.scale.unpack(scales).clamp_min(torch.finfo(torch.float32).tiny)
        codes = _clamped(groups / used.unsqueeze(-1), self.element).flatten(-2)
        return self.element.pack(codes), scales

    def decode(self, stored: tuple[Tensor, ...], count: int, dim: int) -> Tensor:
        """The stored tensors -> (..., count, dim) float32."""
        values = self.element.unpack(stored[0])
        shape = (*values.shape[:-1], count, dim)
        if self.group is None or self.scale is None:
            return (values * self.fixed).reshape(shape)
        size = self.group or dim
        groups = _groups(values, size) * self.scale.unpack(stored[1]).unsqueeze(-1)
        return groups.flatten(-2)[..., : count * dim].reshape(shape)

    def largest(self, rows: Tensor) -> Tensor:
        """(..., count, dim) -> what `half_step` is a share of, for each element."""
        if self.fixed != _NO_SCALE:
            return torch.full_like(rows, REACH)
        if not self.group:
            return rows.abs().amax(-1, keepdim=True).expand_as(rows)
        flat = rows.flatten(-2)
        groups = _groups(flat, self.group)
        most = groups.abs().amax(-1, keepdim=True).expand_as(groups).flatten(-2)
        return most[..., : flat.shape[-1]].view_as(rows)

    @property
    def unit_error(self) -> float:
        """The largest rounding error in a vector of unit spread, whose largest value is about 4."""
        if self.element in (_INT8, _INT4):
            return self.half_step * (REACH if self.group is None else 4.0)
        return self.half_step

    def round(self, rows: Tensor) -> Tensor:
        """What is left of (..., count, dim) after being stored once."""
        return self.decode(self.encode(rows), rows.shape[-2], rows.shape[-1])


def _groups(flat: Tensor, size: int) -> Tensor:
    """(..., n) -> (..., groups, size), the last group filled up with zeros."""
    full = pad(flat, (0, -flat.shape[-1] % size))
    return full.reshape(*full.shape[:-1], -1, size)


def _clamped(values: Tensor, element: Element) -> Tensor:
    return values.clamp(-element.limit, element.limit)


def _plain(dtype: torch.dtype) -> Element:
    return Element(torch.finfo(dtype).max, lambda x: x.to(dtype), lambda x: x.float())


def _bytes_of(dtype: torch.dtype) -> Element:
    """8-bit floats as bytes: not every device indexes tensors of an 8-bit float type."""
    return Element(
        torch.finfo(dtype).max,
        lambda x: x.to(dtype).view(torch.uint8),
        lambda x: x.view(dtype).float(),
    )


def _nibbles(codes: Tensor) -> Tensor:
    """(..., n) codes of 0 .. 15 -> (..., n / 2) bytes."""
    pairs = _groups(codes, 2).to(torch.uint8)
    return pairs[..., 0] | (pairs[..., 1] << 4)


def _codes(stored: Tensor) -> Tensor:
    """(..., n) bytes -> (..., 2 n) codes of 0 .. 15."""
    return torch.stack((stored & 15, stored >> 4), dim=-1).flatten(-2)


_FP4_LEVELS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # e2m1; bit 3 is the sign
_FP4_BORDERS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # halfway between two levels


def _pack_fp4(values: Tensor) -> Tensor:
    borders = torch.tensor(_FP4_BORDERS, device=values.device)
    return _nibbles(torch.bucketize(values.abs(), borders) + 8 * (values < 0))


def _unpack_fp4(stored: Tensor) -> Tensor:
    levels = torch.tensor(_FP4_LEVELS, device=stored.device)
    codes = _codes(stored).long()
    return torch.where(codes < 8, levels[codes % 8], -levels[codes % 8])


def _pack_exponent(scales: Tensor) -> Tensor:
    """A power of two, rounded up so that nothing exceeds the limit; exponent + 127 in a byte."""
    exponents = torch.log2(scales.clamp_min(2.0**-126)).ceil()
    return (exponents + 127).clamp(0, 254).to(torch.uint8)


_FLOAT32 = _plain(torch.float32)
_FLOAT16 = _plain(torch.float16)
_BFLOAT16 = _plain(torch.bfloat16)
_E4M3 = _bytes_of(torch.float8_e4m3fn)
_E5M2 = _bytes_of(torch.float8_e5m2)
_INT8 = Element(127, lambda x: x.round().to(torch.int8), lambda x: x.float())
_INT4 = Element(7, lambda x: _nibbles(x.round() + 8), lambda x: _codes(x).float() - 8)
_FP4 = Element(6, _pack_fp4, _unpack_fp4)
_E8M0 = Element(2.0**127, _pack_exponent, lambda x: torch.exp2(x.float() - 127))

# A scale that comes with the weights covers +-8: what is stored has unit spread, and one value in
# 10^15 of a normal distribution lies further out.
REACH = 8.0
_NO_SCALE = 1.0

_FORMATS = {
    "float32": Format(_FLOAT32, None, None, _NO_SCALE, 2.0**-24),
    "float16": Format(_FLOAT16, None, None, _NO_SCALE, 2.0**-11),
    "bfloat16": Format(_BFLOAT16, None, None, _NO_SCALE, 2.0**-8),
    "fp8_e4m3": Format(_E4M3, None, None, _NO_SCALE, 2.0**-4),
    "fp8_e5m2": Format(_E5M2, None, None, _NO_SCALE, 2.0**-3),
    "int8": Format(_INT8, None, None, REACH / 127, 1 / 254),
    "int4": Format(_INT4, None, None, REACH / 7, 1 / 14),
    "fp8_per_token_head": Format(_E4M3, VECTOR, _FLOAT32, _NO_SCALE, 2.0**-4),
    "int8_per_token_head": Format(_INT8, VECTOR, _FLOAT32, _NO_SCALE, 1 / 254),
    "int4_per_token_head": Format(_INT4, VECTOR, _FLOAT32, _NO_SCALE, 1 / 14),
    "q8_0": Format(_INT8, 32, _FLOAT16, _NO_SCALE, 1 / 254),
    "q4_0": Format(_INT4, 32, _FLOAT16, _NO_SCALE, 1 / 14),
    "mxfp8": Format(_E4M3, 32, _E8M0, _NO_SCALE, 2.0**-4),
    "mxfp4": Format(_FP4, 32, _E8M0, _NO_SCALE, 1 / 4),
    "nvfp4": Format(_FP4, 16, _E4M3, _NO_SCALE, 1 / 4),
}


def format_of(dtype: DType) -> Format:
    """The format of a cache dtype among those of `cut.FORMATS`."""
    return _FORMATS[dtype.name]
