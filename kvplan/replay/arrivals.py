"""When requests come: at their time, all at once, or one for each that ends.

Those that have come and wait far behind others are kept as bare numbers, so a queue of a million
takes little memory.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from kvplan.errors import UsageError
from kvplan.replay.request import Request, Row

ENDLESS = 1 << 62
KEPT = 256  # requests at the head of the queue that are whole
_MOST_WAITING = 20_000_000
_TRIMMED = 1 << 16


class Arrivals:
    """Requests in order of arrival, read from the trace as they are needed.

    Attributes:
        next_step: the step at which the next one arrives; `ENDLESS` when none is left, or in a
            closed loop when all clients wait for an answer.
        backlog: requests that have arrived and were held back.

    Args:
        rows: the trace.
        step_ms: milliseconds of trace time in one step; 0 for all at once.
        clients: of a closed loop, 0 for none: then requests come when others end.
    """

    def __init__(self, rows: Iterable[Row], *, step_ms: float = 0.0, clients: int = 0) -> None:
        self._rows: Iterator[Row] = iter(rows)
        self._step_ms = step_ms
        self._closed = clients > 0
        self._tickets = deque([0] * clients)  # steps at which a client asks again
        self._index = 0
        self._row: Row | None = None
        self._numbers = array("q")  # arrival, prompt and output of each one held back
        self._texts: deque[Sequence[int] | None] = deque()
        self._head = 0
        self.backlog = 0
        self.next_step = ENDLESS
        self._advance()

    def come(self, clock: int, waiting: deque[Request]) -> None:
        """Let those that arrive up to a step wait."""
        while self.next_step <= clock:
            if self.backlog or len(waiting) >= KEPT:
                self._hold()
            else:
                waiting.append(self._take())

    def refill(self, waiting: deque[Request]) -> None:
        """Move those that were held back up, once there is room at the head of the queue."""
        while self.backlog and len(waiting) < KEPT:
            head = self._head
            arrive, prompt, output = self._numbers[head : head + 3]
            waiting.append(Request(self._index, arrive, prompt, output, self._texts.popleft()))
            self._index += 1
            self.backlog -= 1
            self._head = head + 3
            if self._head > _TRIMMED:
                del self._numbers[: self._head]
                self._head = 0

    def ended(self, clock: int) -> None:
        """A request has ended; in a closed loop its client sends the next one."""
        if self._closed:
            self._tickets.append(clock)
            if self.next_step == ENDLESS:
                self._advance()

    def unserved(self) -> int:
        """Read the trace to its end: how many requests there are in all."""
        rest = int(self._row is not None) + sum(1 for _ in self._rows)
        return self._index + self.backlog + rest

    def _take(self) -> Request:
        row = self._row
        assert row is not None
        request = Request(self._index, self.next_step, row.prompt, row.output, row.ids)
        self._index += 1
        self._next()
        return request

    def _hold(self) -> None:
        row = self._row
        assert row is not None
        self._numbers.extend((self.next_step, row.prompt, row.output))
        self._texts.append(row.ids)
        self.backlog += 1
        if self.backlog > _MOST_WAITING:
            raise UsageError(
                f"more than {_MOST_WAITING:,} requests wait at once",
                hint="is the trace endless? --limit N ends it",
            )
        self._next()

    def _next(self) -> None:
        self._row = None
        if self._closed:
            self._tickets.popleft()
        self._advance()

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
