"""A smaller cache of the same layout: fewer sequences, and if one is still too many, fewer tokens.

The engine lays out the smaller request itself, so every tensor keeps its name, format and all
dimensions but those that count sequences, tokens or blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.engines.request import Request
from kvplan.search import largest


def scaled(request: Request, fits: Callable[[Request], bool]) -> Request | None:
    """The largest request, of at most this batch and context, that fits; None when none does.

    Args:
        request: with its context settled.
        fits: whether a request is small enough; what holds for one holds for every smaller one.
    """
    if fits(request):
        return request
    batch = largest(lambda n: fits(request.replaced(batch=n)), request.batch)
    if batch:
        return request.replaced(batch=batch)
    one = request.replaced(batch=1)
    assert request.ctx is not None
    tokens = largest(lambda n: fits(one.replaced(ctx=n)), request.ctx)
    return one.replaced(ctx=tokens) if tokens else None
