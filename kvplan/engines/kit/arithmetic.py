"""Integer arithmetic that every engine's rules need, once."""

from __future__ import annotations


def ceil_div(count: int, size: int) -> int:
    """How many pieces of `size` cover `count`."""
    return -(-count // size)


def round_up(count: int, multiple: int) -> int:
    """`count` rounded up to a multiple."""
    return ceil_div(count, multiple) * multiple
