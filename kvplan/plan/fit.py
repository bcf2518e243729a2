"""Does it fit, how many sequences, how long a context, how many devices, and what binds.

`available_bytes` is what one rank has for its cache. The three inversions hold everything else
still: sequences at the asked context, tokens at the asked batch, tensor parallel ranks for both.
Costs never fall when batch or context grow, so each inverse is exact: one more does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout, Engine
from kvplan.engines.logical import LogicalCache, logical_cache
from kvplan.engines.request import Request
from kvplan.load import LoadedModel
from kvplan.plan.search import largest
from kvplan.plan.size import LOGICAL
from kvplan.spec.model import ModelSpec
from kvplan.units import MAX_COUNT

MAX_DEVICES = 1024

MEMORY = "available_bytes"
CONTEXT = "max_context"
ENGINE = "engine"


class Fit(NamedTuple):
    """The answer of `kvplan fit`.

    Attributes:
        available_bytes: what one rank has for its cache.
        needed_bytes: what the request takes on the fullest rank; None when the engine refuses it.
        fits: the whole request fits, and the engine would start.
        binding_limit: what keeps the context from growing: `available_bytes`, `max_context` (the
            model's own), or `engine` (it refuses for another reason than memory).
        max_batch_at_ctx, max_ctx_at_batch: the largest that fit, 0 for none, None without a bound.
        min_devices: fewest tensor parallel ranks of that memory; None when no number is enough.
        plan: the engine's own plan for one request; None for `logical`.
    """

    model: LoadedModel
    request: Request
    logical: LogicalCache
    available_bytes: int
    needed_bytes: int | None
    fits: bool
    binding_limit: str
    max_batch_at_ctx: int | None
    max_ctx_at_batch: int | None
    min_devices: int | None
    plan: CacheLayout | None


def fit(model: LoadedModel, request: Request, available_bytes: int, engine: str = LOGICAL) -> Fit:
    """Hold a request against the memory of one rank.

    Raises:
        KvplanError: an unknown engine, or a request it cannot answer.
    """
    cost = _LogicalCost(model.spec) if engine == LOGICAL else _EngineCost(model.spec, engine)
    request = cost.settled(request)
    plan = cost.plan(request, available_bytes)
    if request.ctx is None and plan is not None and plan.figures.get("max_model_len"):
        request = request.replaced(ctx=plan.figures["max_model_len"])  # what the engine settled
    logical = logical_cache(model.spec, request)
    asked = request.replaced(ctx=logical.ctx)
    needed = cost.bytes(asked)

    def enough(changed: Request) -> bool:
        amount = cost.bytes(changed)
        return amount is not None and amount <= available_bytes

    # An engine that holds more for a moment than in the end says so in its own inverses.
    own = plan.figures if plan is not None else {}
    ctx_limit = model.spec.max_context or MAX_COUNT
    if "max_batch_at_ctx" in own:
        max_batch, max_ctx = own["max_batch_at_ctx"], own["max_ctx_at_batch"]
        holds = max_batch is None or max_batch >= asked.batch
    else:
        max_batch = largest(lambda batch: enough(asked.replaced(batch=batch)), MAX_COUNT)
        max_ctx = largest(lambda tokens: enough(asked.replaced(ctx=tokens)), ctx_limit)
        holds = enough(asked)
    return Fit(
        model=model,
        request=asked,
        logical=logical,
        available_bytes=available_bytes,
        needed_bytes=needed,
        fits=holds and (plan is None or plan.refusal is None),
        binding_limit=_binding(needed, max_ctx, ctx_limit),
        max_batch_at_ctx=max_batch,
        max_ctx_at_batch=max_ctx,
        min_devices=next(cost.devices(asked, available_bytes), None),
        plan=plan,
    )


def _binding(needed: int | None, max_ctx: int | None, ctx_limit: int) -> str:
    if needed is None and not max_ctx:
        return ENGINE
    return CONTEXT if max_ctx is None or max_ctx >= ctx_limit else MEMORY


class _LogicalCost:
    """The logical cache on one rank: unsharded, so more devices only divide it."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def settled(self, request: Request) -> Request:
        return request

    def bytes(self, request: Request) -> int | None:
        return logical_cache(self.spec, request).bytes

    def plan(self, request: Request, available_bytes: int) -> CacheLayout | None:
        return None

    def devices(self, request: Request, available_bytes: int) -> Iterator[int]:
        yield -(-logical_cache(self.spec, request).bytes // available_bytes)


class _EngineCost:
    """What an engine's fullest rank allocates."""

    def __init__(self, spec: ModelSpec, engine: str) -> None:
        self.spec = spec
        self.engine: Engine
        self.engine, self.version = find_engine(engine)

    def settled(self, request: Request) -> Request:
        return self.engine.settled(request)

    def bytes(self, request: Request) -> int | None:
        layout = self.engine.layout(self.spec, request, self.version)
        if layout.refusal is not None:
            return None
        return max((rank.bytes for rank in layout.ranks), default=0)

    def plan(self, request: Request, available_bytes: int) -> CacheLayout | None:
        return self.engine.fit(self.spec, request, self.version, available_bytes)

    def devices(self, request: Request, available_bytes: int) -> Iterator[int]:
        """Tensor parallel sizes that divide the heads, smallest first, that hold the request."""
        heads = self.spec.heads
        for tp in range(1, MAX_DEVICES + 1) if heads else (1,):
            if heads is not None and heads % tp:
                continue
            needed = self.bytes(request.replaced(tp=tp))
            if needed is not None and needed <= available_bytes:
                yield tp * request.pp
