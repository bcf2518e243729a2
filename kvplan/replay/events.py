"""The scheduler, visiting only requests with something to do.

A request that decodes needs nothing but a block now and then, so its last step is known when its
prompt is done, and its blocks come from the cache's own calendar; what remains of a step is to
count. When a step's blocks do not fit, the running list is walked in order, as `walk` does always.

Exact if no step's budget ends inside the running list (`Facts.visits_all` is false): then the only
request that can be partly computed is the last of the list. Source: as `walk`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from kvplan.replay.arrivals import ENDLESS, Arrivals
from kvplan.replay.facts import Facts
from kvplan.replay.meters import Meters
from kvplan.replay.request import NEVER, Request


class Calendar(Protocol):
    """A cache that knows when decoding requests need blocks."""

    refused_all: bool  # the last refusal was for want of room for the whole text

    @property
    def free(self) -> int: ...

    @property
    def changes(self) -> int: ...

    def find(self, request: Request) -> int: ...

    def admit(self, request: Request, reused: int, new: int, *, alone: bool) -> bool: ...

    def extend(self, request: Request, new: int) -> bool: ...

    def release_at(self, request: Request, computed: int, hashed: int) -> None: ...

    def forget(self, request: Request) -> None: ...

    def start(self, request: Request, clock: int) -> None: ...

    def stop(self, request: Request) -> None: ...

    def advance(self, clock: int) -> bool: ...

    def needs(self, request: Request, clock: int) -> bool: ...

    def advanced(self, clock: int) -> None: ...


class Preempted(Exception):
    """Somebody was preempted, and the cache cannot say what is found again."""


class Events:
    """One replay.

    Args:
        usable: blocks that requests can hold.
        until_preempted: raise `Preempted` instead of preempting.
    """

    def __init__(
        self,
        facts: Facts,
        cache: Calendar,
        arrivals: Arrivals,
        meters: Meters,
        *,
        until_preempted: bool = False,
    ) -> None:
        self._facts = facts
        self._cache = cache
        self._arrivals = arrivals
        self._meters = meters
        self._until_preempted = until_preempted
        self._lag = facts.lag
        self._running: dict[Request, None] = {}  # in order of admission
        self._waiting: deque[Request] = deque()
        self._due: dict[int, list[Request]] = {}  # step -> those that sample their last token
        self._decoding = 0
        self._prefill: Request | None = None
        self._admitted = 0

    def run(self) -> Request | None:
        """Run to the end of the trace, or to a request that can never be admitted."""
        arrivals, meters, cache = self._arrivals, self._meters, self._cache
        running, waiting, due = self._running, self._waiting, self._due
        usable, budget = self._facts.usable_blocks, self._facts.max_num_batched_tokens
        most, lagging = self._facts.max_num_seqs, self._lag > 0
        flight: list[Request] = []  # asynchronous: ended in the last step, not known yet
        blocked: tuple[Request, int] | None = None  # refused, and the state of the cache then
        clock = 0
        while True:
            if arrivals.next_step <= clock or (not running and not waiting):
                clock = self._arrive(clock)
                if clock == ENDLESS:
                    return None
            preempted = False
            if self._decoding and not cache.advance(clock):
                preempted = self._walk(clock)
            tokens = self._decoding
            if self._prefill is not None and not preempted:
                new = self._continue(self._prefill, clock, budget - tokens)
                tokens += new
                preempted = not new
            if waiting and not preempted and tokens < budget and len(running) < most:
                state = cache.changes
                if blocked is None or blocked[0] is not waiting[0] or blocked[1] != state:
                    tokens += self._admit(clock, budget - tokens)
                    blocked = None
                    if waiting and cache.refused_all:
                        blocked = (waiting[0], cache.changes)
            if tokens:
                queue = len(waiting) + arrivals.backlog
                meters.step(clock, len(running), queue, usable - cache.free, tokens)
                ended = due.pop(clock, None) or []
                if ended:
                    ended = self._last(ended, clock)
                clock += 1
            elif not flight:
                return waiting[0]
            else:
                ended = []
            if lagging:
                ended, flight = flight, ended
            if ended:
                self._end(ended, clock)

    def _arrive(self, clock: int) -> int:
        """Let those that have come wait, and return the step; an idle time is skipped."""
        arrivals = self._arrivals
        if not self._running and not self._waiting and arrivals.next_step > clock:
            clock = arrivals.next_step
            if clock == ENDLESS:
                return clock
        arrivals.come(clock, self._waiting)
        return clock

    def _continue(self, request: Request, clock: int, left: int) -> int:
        """The next chunk of the prompt that is partly computed; 0 when it is preempted."""
        new = min(request.known - request.computed, left)
        if not self._cache.extend(request, new):
            self._preempt(clock)
            return 0
        self._computed(request, clock, new)
        return new

    def _admit(self, clock: int, left: int) -> int:
        """Admit waiting requests, and return their tokens."""
        cache, waiting, running = self._cache, self._waiting, self._running
        most, tokens = self._facts.max_num_seqs, 0
        cache.refused_all = False
        while tokens < left and waiting and len(running) < most:
            request = waiting[0]
            reused = cache.find(request)
            new = min(request.known - reused, left - tokens)
            if not cache.admit(request, reused, new, alone=not running):
                break
            waiting.popleft()
            if self._arrivals.backlog:
                self._arrivals.refill(waiting)
            running[request] = None
            request.running = True
            request.order = self._admitted = self._admitted + 1
            request.computed = reused
            request.in_flight = 0
            self._meters.admitted(request, clock, reused)
            self._computed(request, clock, new)
            tokens += new
        return tokens

    def _computed(self, request: Request, clock: int, new: int) -> None:
        """A chunk was scheduled; with its last token the request decodes from the next step on."""
        start = request.computed
        end = request.computed = start + new
        self._meters.chunk(request, start, end)
        if self._lag:
            request.in_flight = new
        seen = request.seen
        if end < request.prompt + seen:
            self._prefill = request
            return
        if request is self._prefill:
            self._prefill = None
        if not seen:
            request.first_token = clock
        last = request.due = clock + request.output - seen - 1
        request.started = clock
        request.base = end - clock - 1  # so that base + clock is what was computed before a step
        ending = self._due.get(last)
        if ending is None:
            self._due[last] = [request]
        else:
            ending.append(request)
        if last > clock:
            self._decoding += 1
            self._cache.start(request, clock)

    def _last(self, ended: list[Request], clock: int) -> list[Request]:
        """Those that really sample their last token in this step, in order of scheduling."""
        ended = [request for request in ended if request.due == clock and request.running]
        if len(ended) > 1:
            ended.sort(key=_order)
        for request in ended:
            if request.started < clock:
                self._decoding -= 1
                self._cache.stop(request)
        return ended

    def _end(self, ended: list[Request], clock: int) -> None:
        """Their last tokens are known."""
        for request in ended:
            if request.running:
                del self._running[request]
                computed = request.prompt + request.output - 1
                self._cache.release_at(request, computed, computed)
            else:  # preempted while its last token was under way
                self._waiting.remove(request)
            self._cache.forget(request)
            self._meters.ended(request, request.due)
            self._arrivals.ended(clock)

    def _walk(self, clock: int) -> bool:
        """The step's blocks in order of the list; whether somebody was preempted."""
        cache, preempted = self._cache, False
        for request in list(self._running):
            if not request.running:
                break  # it and all behind it were preempted
            if request.due < clock or request is self._prefill:
                continue
            if not cache.needs(request, clock):
                continue
            request.decode_at(clock, self._lag)
            while request.running and not cache.extend(request, 1):
                preempted = True
                self._preempt(clock)
        cache.advanced(clock)
        return preempted

    def _preempt(self, clock: int) -> None:
        """The last of the list loses its blocks."""
        if self._until_preempted:
            raise Preempted
        victim, _ = self._running.popitem()
        victim.running = False
        victim.preemptions += 1
        self._meters.preemptions += 1
        if victim is self._prefill:
            self._prefill = None
            self._cache.release_at(victim, victim.computed, victim.computed)
        else:
            computed = victim.base + clock
            # What the last step computed is hashed one step later than without lag.
            late = self._lag if clock - 1 > victim.started else 0
            if victim.due >= clock:
                self._decoding -= 1
                self._cache.stop(victim)
                # It may be back in this very step, if nothing else runs, and then due as before.
                self._due[victim.due].remove(victim)
            self._cache.release_at(victim, computed, computed - late)
            victim.highest = max(victim.highest, computed)
            victim.seen = victim.output - (victim.due - clock + 1)
            if victim.due >= clock:
                victim.due = NEVER
        victim.computed = 0
        victim.in_flight = 0
        self._waiting.appendleft(victim)


def _order(request: Request) -> int:
    return request.order
