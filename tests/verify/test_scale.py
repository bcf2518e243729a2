"""Smaller caches of the same layout."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan.engines.request import Request
from kvplan.verify.scale import scaled


def cost(request: Request) -> int:
    """10 bytes per token and 100 of fixed state, per sequence."""
    assert request.ctx is not None
    return request.batch * (10 * request.ctx + 100)


def smaller(request: Request, limit: int) -> Request | None:
    return scaled(request, lambda asked: cost(asked) <= limit)


def test_all_of_it_when_it_fits() -> None:
    """Nothing is cut without need."""
    request = Request(ctx=1000, batch=32)
    assert smaller(request, cost(request)) == request


def test_sequences_go_first() -> None:
    """One sequence of 1,000 tokens is 10,100 bytes, so 45,000 hold four."""
    found = smaller(Request(ctx=1000, batch=32), 45_000)
    assert found is not None
    assert (found.ctx, found.batch) == (1000, 4)


def test_then_tokens() -> None:
    """5,000 bytes hold (5,000 - 100) / 10 tokens of one sequence."""
    found = smaller(Request(ctx=1000, batch=32), 5_000)
    assert found is not None
    assert (found.ctx, found.batch) == (490, 1)


def test_a_fixed_state_does_not_shrink() -> None:
    """One token of one sequence takes 110 bytes."""
    assert smaller(Request(ctx=1000, batch=32), 110) is not None
    assert smaller(Request(ctx=1000, batch=32), 109) is None


@given(st.integers(1, 5000), st.integers(1, 50), st.integers(110, 10**6))
def test_never_more_than_asked_and_nothing_larger_fits(ctx: int, batch: int, limit: int) -> None:
    """The largest that fits, never above the request."""
    found = smaller(Request(ctx=ctx, batch=batch), limit)
    assert found is not None
    assert found.ctx is not None
    assert cost(found) <= limit
    assert found.ctx <= ctx
    assert found.batch <= batch
    if found.batch < batch:
        larger = found.ctx + 1 if found.ctx < ctx else found.ctx
        more = (
            found.replaced(ctx=larger) if found.ctx < ctx else found.replaced(batch=found.batch + 1)
        )
        assert cost(more) > limit
