"""Checks and their words: counts, bytes and ranges of blocks, as the comparisons print them."""

from __future__ import annotations

from kvplan.checks import Check
from kvplan.running.printed import Printed
from kvplan.running.vllm.pool import PoolOf
from kvplan.units import GIB


def count_check(
    name: str, predicted: int, measured: int, tolerance: int, ok: bool, why: str, unit: str
) -> Check:
    """The check that a predicted count is the printed one."""
    return Check(
        name=name, predicted=predicted, measured=measured, difference=measured - predicted,
        tolerance=tolerance, ok=ok, why=why, unit=unit,
    )  # fmt: skip


def half(spread: range) -> int:
    """How far a range reaches to each side of its middle."""
    return len(spread) // 2


def plain(blocks: range) -> str:
    """A number of blocks, or the range it lies in."""
    if len(blocks) == 1:
        return f"{blocks[0]:,}"
    return f"{blocks[0]:,} to {blocks[-1]:,}"


def gib(printed: Printed) -> str:
    """Bytes in GiB, as vLLM prints them."""
    return f"{printed.value / GIB:.2f} GiB"


def bytes_per_block(pool: PoolOf) -> str:
    """Bytes of a block, for each kind of stage."""
    return " / ".join(f"{size:,} B" for size in dict.fromkeys(pool.per_block))


def per_request(pool: PoolOf) -> str:
    """Blocks of one request, in words."""
    blocks = pool.made.pool.request_blocks(pool.made.load)
    groups = len(pool.made.pool.groups)
    if groups == 1:
        return f"{blocks:,} blocks per request"
    return f"{blocks:,} blocks per request over {groups} groups"


def bytes_check(name: str, predicted: int, printed: Printed, why: str) -> Check:
    """The check that predicted bytes round to what was printed."""
    measured = int(printed.value)
    tolerance = int(printed.step / 2) + 1
    ok = printed.low - 1 <= predicted <= printed.high + 1
    return count_check(name, predicted, measured, tolerance, ok, why, "B")
