"""Whether an engine would start and hold a request in that memory: one plan, no inverse."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines import find_engine
from kvplan.engines.request import Request
from kvplan.load import LoadedModel, loader
from kvplan.plan.cost import Cost


def holds_request(
    model: LoadedModel,
    request: Request,
    version: str,
    available_bytes: int,
    specs: Sequence[str] | None = None,
) -> bool:
    """True when it starts with `available_bytes` a rank and the request fits."""
    cost, settled = _cost(model, request, version, specs)
    need = cost.need(settled)
    if need is None or not need.within(available_bytes):
        return False
    return cost.starts(settled, available_bytes)


def needed_bytes(
    model: LoadedModel, request: Request, version: str, specs: Sequence[str] | None = None
) -> int | None:
    """Bytes of the fullest rank; None when the engine refuses the request."""
    cost, settled = _cost(model, request, version, specs)
    need = cost.need(settled)
    return None if need is None else need.bytes


def _cost(
    model: LoadedModel, request: Request, version: str, specs: Sequence[str] | None
) -> tuple[Cost, Request]:
    engine, _ = find_engine(f"vllm@{version}", loader(specs, allow_network=False))
    return Cost(model.spec, engine, version), engine.settled(request)
