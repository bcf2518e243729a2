"""A smaller cache of the same layout: fewer sequences, and if one is still too many, fewer tokens.

The engine lays out the smaller request itself, so every tensor keeps its name, format and all
dimensions but those that count sequences, tokens or blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.units import format_bytes


def scaled(request: Request, cost: Callable[[Request], int], limit: int) -> Request:
    """The largest request, of at most this batch and context, that costs at most `limit` bytes.

    Args:
        request: with its context settled.
        cost: bytes of a request on the device, growing with batch and context.
        limit: bytes.

    Raises:
        UsageError: not even one token of one sequence is that small.
    """
    if cost(request) <= limit:
        return request
    batch = _largest(request.batch, lambda n: cost(replace(request, batch=n)) <= limit)
    if batch:
        return replace(request, batch=batch)
    one = replace(request, batch=1)
    assert request.ctx is not None
    tokens = _largest(request.ctx, lambda n: cost(replace(one, ctx=n)) <= limit)
    if tokens:
        return replace(one, ctx=tokens)
    least = cost(replace(one, ctx=1))
    raise UsageError(
        f"no cache of this layout is as small as {format_bytes(limit)}: one token of one sequence"
        f" takes {format_bytes(least)}",
        hint="states and blocks of fixed size do not shrink; give more bytes",
    )


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest count from 1 to `most` that fits, 0 when none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
