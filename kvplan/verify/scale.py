"""A smaller cache of the same layout: fewer sequences, and if one is still too many, fewer tokens.

The engine lays out the smaller request itself, so every tensor keeps its name, format and all
dimensions but those that count sequences, tokens or blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.engines.request import Request


def scaled(request: Request, fits: Callable[[Request], bool]) -> Request | None:
    """The largest request, of at most this batch and context, that fits; None when none does.

    Args:
        request: with its context settled.
        fits: whether a request is small enough; what holds for one holds for every smaller one.
    """
    if fits(request):
        return request
    batch = _largest(request.batch, lambda n: fits(request.replaced(batch=n)))
    if batch:
        return request.replaced(batch=batch)
    one = request.replaced(batch=1)
    assert request.ctx is not None
    tokens = _largest(request.ctx, lambda n: fits(one.replaced(ctx=n)))
    return one.replaced(ctx=tokens) if tokens else None


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
