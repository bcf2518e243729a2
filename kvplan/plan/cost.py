"""What a request takes of one rank, by the logical figure or by an engine: what `fit` inverts.

Bytes are of the fullest rank, at the moment it holds most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.arithmetic import ceil_div
from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout, spec_beside
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec

MAX_DEVICES = 1024

Enough = Callable[[Request], bool]


class Need(NamedTuple):
    """What has to fit, and the room that an engine's own flags make for it, if they do."""

    bytes: int
    own_room: int | None = None

    def room(self, available_bytes: int) -> int:
        """Bytes that one rank has for it."""
        return available_bytes if self.own_room is None else self.own_room

    def within(self, available_bytes: int) -> bool:
        """Whether it fits."""
        return self.bytes <= self.room(available_bytes)


class LogicalCost:
    """The logical cache of the whole model: more devices only divide it."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def settled(self, request: Request) -> Request:
        """The request with what the engine's own flags say about it in its fields."""
        return request

    def beside(self, request: Request) -> ModelSpec:
        """The spec of the logical figure beside it."""
        return self.spec

    def need(self, request: Request) -> Need | None:
        """What has to fit; None when the engine refuses the request."""
        return Need(logical_cache(self.spec, request).bytes)

    def plan(self, request: Request, available_bytes: int) -> CacheLayout | None:
        """None: the logical figure has no plan."""
        return None

    def starts(self, request: Request, available_bytes: int) -> bool:
        """Whether the engine would start with that memory."""
        return True

    def devices(self, request: Request, available_bytes: int, enough: Enough) -> int | None:
        """Devices among which the cache can be divided; None when they have no memory."""
        needed = logical_cache(self.spec, request).bytes
        if available_bytes <= 0:
            return None if needed else 1
        return max(ceil_div(needed, available_bytes), 1)


class EngineCost:
    """The most that an engine's fullest rank ever holds."""

    def __init__(self, spec: ModelSpec, engine: str) -> None:
        self.spec = spec
        self.engine, self.version = find_engine(engine)

    def settled(self, request: Request) -> Request:
        """The request with what the engine's own flags say about it in its fields."""
        return self.engine.settled(request)

    def beside(self, request: Request) -> ModelSpec:
        """The spec of the logical figure beside it."""
        return spec_beside(self.engine, self.spec, request)

    def need(self, request: Request) -> Need | None:
        """What has to fit; None when the engine refuses the request."""
        layout = self.engine.layout(self.spec, request, self.version)
        if layout.refusal is not None:
            return None
        return Need(layout.peak_bytes, layout.figures.get("available_bytes"))

    def plan(self, request: Request, available_bytes: int) -> CacheLayout:
        """The engine's own plan for one request in that memory."""
        return self.engine.fit(self.spec, request, self.version, available_bytes)

    def starts(self, request: Request, available_bytes: int) -> bool:
        """Whether the engine would start with that memory."""
        plan = self.plan(request, available_bytes)
        return plan.refusal is None and bool(plan.figures.get("fits", True))

    def devices(self, request: Request, available_bytes: int, enough: Enough) -> int | None:
        """Devices of the smallest tensor parallel size that holds the request."""
        heads = self.spec.heads or 0  # without attention the engine says what it can split
        for tp in range(1, MAX_DEVICES + 1):
            if heads % tp:
                continue
            try:
                if enough(request.replaced(tp=tp)):
                    return tp * request.pp * request.dp
            except UsageError:  # a size that is not modelled, or above any number of ranks
                if tp == request.tp:
                    raise
        return None


Cost = LogicalCost | EngineCost
