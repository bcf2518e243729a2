"""What is counted while a replay runs, in memory that does not grow with the trace.

Counts are sums and maxima; waiting and finishing are histograms, exact up to 65,536 steps and to
one part in 1,024 beyond; the time line is every so many steps, fewer as the run grows.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

from kvplan.replay.request import NEVER, Request

_EXACT = 1 << 16
_FINE = 10  # bits that a value beyond keeps behind its first
LINE_POINTS = 240
QUANTILES = (("p0", 0.0), ("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))

Point = tuple[int, int, int, int, int]  # clock, running, waiting, used blocks, scheduled tokens


class Histogram:
    """How often each value came."""

    __slots__ = ("bins", "count", "largest", "total")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.largest = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count a value."""
        self.count += times
        self.total += value * times
        if value > self.largest:
            self.largest = value
        if value >= _EXACT:
            shift = value.bit_length() - 1 - _FINE
            value = value >> shift << shift
        self.bins[value] = self.bins.get(value, 0) + times

    def merge(self, other: Histogram) -> None:
        """Add another's counts."""
        for value, times in other.bins.items():
            self.bins[value] = self.bins.get(value, 0) + times
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def quantile(self, share: float) -> int:
        """The value at rank int(share x count), as in the release's own records."""
        values = sorted(self.bins)
        ranks = list(accumulate(self.bins[value] for value in values))
        rank = min(int(share * self.count), self.count - 1)
        return values[bisect_left(ranks, rank + 1)]

    def summary(self) -> dict[str, int] | None:
        """The usual quantiles, the maximum and the sum; None when nothing was counted."""
        if not self.count:
            return None
        found = {name: self.quantile(share) for name, share in QUANTILES}
        return found | {"max": self.largest, "sum": self.total}


class Line:
    """The time line: at most `LINE_POINTS` points, one every so many steps."""

    __slots__ = ("every", "points")

    def __init__(self) -> None:
        self.every = 1
        self.points: list[Point] = []

    def add(self, point: Point) -> None:
        """The point of a step whose number is a multiple of `every`."""
        self.points.append(point)

    def halve(self) -> None:
        """Keep every other point."""
        self.every *= 2
        del self.points[1::2]


class Meters:
    """Counts of one run.

    Args:
        digest: hash every step and every finish, so that two runs can be told to be equal.
        ended: told of every request that has its last token, and of the step.
    """

    def __init__(
        self, *, digest: bool = True, ended: Callable[[Request, int], None] | None = None
    ) -> None:
        self._told = ended
        self.requests = 0
        self.steps = 0
        self.scheduled_tokens = 0
        self.recomputed_tokens = 0
        self.prompt_tokens = 0
        self.preemptions = 0
        self.peak_running = 0
        self.peak_waiting = 0
        self.peak_blocks = 0
        self.block_steps = 0
        self.running_steps = 0
        self.last_step = NEVER
        self.hits = 0
        self.queries = 0
        self.preempted_hits = 0
        self.wait_steps = Histogram()
        self.first_token_steps = Histogram()
        self.finish_step = Histogram()
        self.used_blocks = Histogram()
        self.line = Line()
        self.digest = digest
        self._steps_sha = hashlib.sha256()
        self._finish_sha = hashlib.sha256()
        self._finished: dict[int, int] = {}  # those that ended before an earlier request
        self._next = 0

    @property
    def decode_tokens(self) -> int:
        """Tokens of outputs that were computed for the first time."""
        return self.scheduled_tokens - self.recomputed_tokens - self.prompt_tokens

    def step(self, clock: int, running: int, waiting: int, used: int, tokens: int) -> None:
        """One executed step, counts as they are after scheduling."""
        number = self.steps
        self.steps = number + 1
        self.scheduled_tokens += tokens
        self.running_steps += running
        self.block_steps += used
        if running > self.peak_running:
            self.peak_running = running
        if waiting > self.peak_waiting:
            self.peak_waiting = waiting
        if used > self.peak_blocks:
            self.peak_blocks = used
        self.used_blocks.add(used)
        self.last_step = clock
        if self.digest:
            self._steps_sha.update(b"%d,%d,%d,%d,%d;" % (clock, running, waiting, used, tokens))
        line = self.line
        if not number % line.every:
            line.add((clock, running, waiting, used, tokens))
        if number >= line.every * LINE_POINTS:
            line.halve()

    def chunk(self, request: Request, start: int, end: int) -> None:
        """Tokens `start` .. `end` - 1 of a request were scheduled."""
        highest = request.highest
        if highest > start:
            self.recomputed_tokens += min(end, highest) - start
            start = highest
        if end > start:
            if start < request.prompt:
                self.prompt_tokens += min(end, request.prompt) - start
            request.highest = end

    def admitted(self, request: Request, clock: int, reused: int) -> None:
        """A request that waited runs."""
        if request.preemptions:
            self.preempted_hits += reused
        else:
            self.hits += reused
            self.queries += request.known
            request.first = clock
            self.wait_steps.add(clock - request.arrive)

    def ended(self, request: Request, clock: int) -> None:
        """A request has its last token, sampled in the step `clock`."""
        self.requests += 1
        self.finish_step.add(clock)
        self.first_token_steps.add(request.first_token - request.arrive)
        if self.digest:
            self._order(request.index, clock)
        if self._told is not None:
            self._told(request, clock)

    def _order(self, index: int, clock: int) -> None:
        finished = self._finished
        finished[index] = clock
        while self._next in finished:
            comma = b"," if self._next else b""
            self._finish_sha.update(comma + b"%d" % finished.pop(self._next))
            self._next += 1

    def unfinished(self, count: int) -> None:
        """Requests up to number `count` that never ended, after which nothing more comes."""
        if self.digest:
            for index in range(self._next, count):
                if index not in self._finished:
                    self._order(index, NEVER)

    @property
    def step_sha(self) -> str | None:
        """First 16 digits of the hash over every step."""
        return self._steps_sha.hexdigest()[:16] if self.digest else None

    @property
    def finish_sha(self) -> str | None:
        """First 16 digits of the hash over the finishing steps of all requests in order."""
        return self._finish_sha.hexdigest()[:16] if self.digest else None
