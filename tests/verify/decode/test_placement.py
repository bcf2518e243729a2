"""Where tokens lie: rows, rings and shuffled blocks, worked out by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvplan.verify.decode.placement import blocks_of, in_a_row, in_blocks  # noqa: E402


def test_a_row_per_sequence() -> None:
    """Sequence 1 starts where the 5 tokens of sequence 0 end."""
    placement = in_a_row(2, 5, None, "cpu")

    assert placement.slots == 10
    assert placement.slots_of(1, 4).tolist() == [[1, 2, 3], [6, 7, 8]]


def test_a_ring_for_a_window() -> None:
    """Window 4: token 4 takes the slot of token 0."""
    placement = in_a_row(1, 9, 4, "cpu")

    assert placement.slots == 4
    assert placement.slots_of(2, 9).tolist() == [[2, 3, 0, 1, 2, 3, 0]]


def test_blocks_of_a_window() -> None:
    """A window of 5 in blocks of 4 can begin with the last slot of one: [xxxA][BCDE]."""
    assert blocks_of(3, 5, 4) == 1
    assert blocks_of(100, 5, 4) == 2
    assert blocks_of(100, 6, 4) == 3  # [xxxA][BCDE][Fxxx]
    assert blocks_of(100, None, 4) == 25


def test_blocks_are_shuffled_and_shared_by_none() -> None:
    """Every slot is given out once, and not in order."""
    placement = in_blocks(2, 40, None, 8, seed=0, device="cpu")

    slots = placement.slots_of(0, 40)
    assert sorted(slots.flatten().tolist()) == list(range(80))
    assert slots.flatten().tolist() != list(range(80))
    assert slots[0, 8:16].tolist() == list(range(int(slots[0, 8]), int(slots[0, 8]) + 8))


@pytest.mark.parametrize("span", [None, 50])
def test_a_token_beyond_the_storage(span: int | None) -> None:
    """Token 8 of 8 is refused, not laid over token 0."""
    with pytest.raises(IndexError, match="position 8 lies beyond storage of 8 positions"):
        in_a_row(1, 8, span, "cpu").slots_of(7, 9)
