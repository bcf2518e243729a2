"""Formats at work: their bytes are the planner's, their codes are the formats'."""

from __future__ import annotations

import pytest

from kvplan.dtypes import DTYPES
from kvplan.verify.decode.cut import FORMATS

torch = pytest.importorskip("torch")

from kvplan.verify.decode.formats import format_of  # noqa: E402 - it imports torch


def rows(count: int, dim: int) -> torch.Tensor:
    return torch.randn(5, count, dim, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize(("count", "dim"), [(1, 64), (2, 48), (8, 128), (1, 576)])
def test_stored_bytes_are_the_planners(name: str, count: int, dim: int) -> None:
    """The tensors of one row have exactly the bytes that `size` counts."""
    stored = format_of(DTYPES[name]).encode(rows(count, dim))

    found = sum(tensor.untyped_storage().nbytes() for tensor in stored)
    assert found == 5 * DTYPES[name].vectors_bytes(count, dim)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_row_comes_back_to_half_a_step(name: str) -> None:
    """What is read differs from what was written by half a step at most, and repeats exactly."""
    format_, given = format_of(DTYPES[name]), rows(2, 48)

    once = format_.round(given)

    error = (once - given).abs() / format_.largest(given)
    assert float(error.max()) <= format_.half_step * 1.01
    assert torch.isfinite(once).all()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_zeros_come_back(name: str) -> None:
    """A row of zeros has no largest value to scale by."""
    assert not format_of(DTYPES[name]).round(torch.zeros(3, 2, 32)).any()


def test_int8_by_hand() -> None:
    """Largest value 12.7: scale 0.1; 1.26 becomes 13 steps."""
    codes, scale = format_of(DTYPES["int8_per_token_head"]).encode(
        torch.tensor([[[12.7, -12.7, 1.26, 0.0]]])
    )

    assert codes.tolist() == [[127, -127, 13, 0]]
    assert scale.dtype is torch.float32
    assert scale.tolist() == [[pytest.approx(0.1)]]


def test_two_4_bit_codes_share_a_byte() -> None:
    """Largest value 7: scale 1; codes are offset by 8, the first in the low half."""
    codes, _ = format_of(DTYPES["int4_per_token_head"]).encode(
        torch.tensor([[[7.0, -7.0, 2.0, -1.0]]])
    )

    assert codes.tolist() == [[15 | 1 << 4, 10 | 7 << 4]]


def test_4_bit_floats_by_hand() -> None:
    """e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4 and 6; the sign is bit 3, the scale a power of two."""
    given = torch.zeros(1, 1, 32)
    given[0, 0, :4] = torch.tensor([6.0, -3.0, 0.5, 2.4])

    codes, scale = format_of(DTYPES["mxfp4"]).encode(given)

    assert codes[0, :2].tolist() == [7 | (8 + 5) << 4, 1 | 4 << 4]
    assert scale.tolist() == [[127]]  # 2^0


def test_each_head_has_its_own_scale() -> None:
    """A small head beside a large one keeps its precision."""
    small, large = torch.full((1, 1, 8), 0.01), torch.full((1, 1, 8), 100.0)

    back = format_of(DTYPES["int8_per_token_head"]).round(torch.cat((small, large), dim=1))

    assert back[0, 0].tolist() == pytest.approx([0.01] * 8)
