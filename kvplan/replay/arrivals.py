"""When requests come: at their time, all at once, or one for each that ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from kvplan.replay.request import Request, Row

ENDLESS = 1 << 62


class Arrivals:
    """Requests in order of arrival, read from the trace as they are needed.

    Attributes:
        next_step: the step at which the next one arrives; `ENDLESS` when none is left, or in a
            closed loop when all clients wait for an answer.

    Args:
        rows: the trace.
        step_ms: milliseconds of trace time in one step; 0 for all at once.
        clients: of a closed loop, 0 for none: then requests come when others end.
    """

    def __init__(self, rows: Iterable[Row], *, step_ms: float = 0.0, clients: int = 0) -> None:
        self._rows: Iterator[Row] = iter(rows)
        self._step_ms = step_ms
        self._closed = clients > 0
        self._tickets = [0] * clients  # steps at which a client asks again
        self._index = 0
        self._row: Row | None = None
        self.next_step = ENDLESS
        self._advance()

    def take(self) -> Request:
        """The request that arrives at `next_step`."""
        row = self._row
        assert row is not None
        request = Request(self._index, self.next_step, row.prompt, row.output, row.ids)
        self._index += 1
        self._row = None
        if self._closed:
            self._tickets.pop(0)
        self._advance()
        return request

    def ended(self, clock: int) -> None:
        """A request has ended; in a closed loop its client sends the next one."""
        if self._closed:
            self._tickets.append(clock)
            if self.next_step == ENDLESS:
                self._advance()

    def rest(self) -> int:
        """Read the trace to its end: how many requests are left."""
        return int(self._row is not None) + sum(1 for _ in self._rows)

    @property
    def taken(self) -> int:
        """Requests taken so far."""
        return self._index

    def _advance(self) -> None:
        if self._row is None:
            self._row = next(self._rows, None)
        if self._row is None:
            self.next_step = ENDLESS
        elif self._closed:
            self.next_step = self._tickets[0] if self._tickets else ENDLESS
        elif self._step_ms:
            self.next_step = math.ceil(self._row.t_ms / self._step_ms)
        else:
            self.next_step = 0
