"""What a request takes of one rank, by an engine's rules: what `fit` inverts.

Bytes are of the fullest rank, at the moment it holds most; of the logical cache, which has no
ranks, they are of the whole model. A model is prepared once per number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.arithmetic import ceil_div
from kvplan.engines.base import Engine, Prepared
from kvplan.engines.layout import Plan
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple
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


class Cost:
    """The most that an engine's fullest rank ever holds."""

    def __init__(self, spec: ModelSpec, engine: Engine, version: str) -> None:
        self.spec = spec
        self.engine = engine
        self.version = version
        self._prepared: dict[int, Prepared] = {}  # by tensor parallel ranks, all that ever changes

    def prepared(self, request: Request) -> Prepared:
        """The model under the request's options."""
        found = self._prepared.get(request.tp)
        if found is None:
            found = self.engine.prepare(self.spec, request, self.version)
            self._prepared[request.tp] = found
        return found

    def need(self, request: Request) -> Need | None:
        """What has to fit; None when the engine refuses the request."""
        plan = self.prepared(request).plan(request.ctx, request.batch)
        return None if plan.refusal is not None else Need(plan.peak_bytes, plan.available_bytes)

    def capacity(self, request: Request, available_bytes: int) -> Plan:
        """The engine's own plan for one request in that memory."""
        return self.prepared(request).capacity(available_bytes, request.ctx, request.batch)

    def starts(self, request: Request, available_bytes: int) -> bool:
        """Whether the engine would start with that memory."""
        plan = self.capacity(request, available_bytes)
        return plan.refusal is None and plan.fits

    def devices(self, request: Request, available_bytes: int, enough: Enough) -> int | None:
        """Devices of the smallest tensor parallel size that holds the request.

        A figure of the whole model can be divided among any number.
        """
        if self.engine.whole_model:
            return self._shares(request, available_bytes)
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

    def _shares(self, request: Request, available_bytes: int) -> int | None:
        need = self.need(request)
        if need is None or available_bytes <= 0:
            return None if need is None or need.bytes else 1
        return max(ceil_div(need.bytes, available_bytes), 1)
