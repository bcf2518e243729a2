"""Pieces and multiples, exact where floats are not."""

from __future__ import annotations

import pytest

from kvplan.arithmetic import ceil_div, round_up


@pytest.mark.parametrize(
    ("count", "size", "pieces"), [(0, 16, 0), (1, 16, 1), (16, 16, 1), (17, 16, 2), (33, 7, 5)]
)
def test_pieces_and_the_multiple_they_make(count: int, size: int, pieces: int) -> None:
    """17 tokens take two blocks of 16, which hold 32."""
    assert ceil_div(count, size) == pieces
    assert round_up(count, size) == pieces * size


def test_counts_above_2_to_the_53_are_exact() -> None:
    """A float would round the last byte away."""
    assert ceil_div(2**60 + 1, 2) == 2**59 + 1
    assert round_up(2**60 + 1, 2**60) == 2**61
