"""Integer arithmetic of blocks and pages; floats would lose the last byte of large caches."""

from __future__ import annotations


def ceil_div(count: int, size: int) -> int:
    """The fewest pieces of `size` that hold `count`."""
    return -(-count // size)


def round_up(count: int, multiple: int) -> int:
    """The smallest multiple that is not below `count`."""
    return -(-count // multiple) * multiple
