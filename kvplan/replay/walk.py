"""The scheduler, every running request visited in every step: exact for any configuration.

    1. Running requests first, in order of admission; each gets the tokens it lacks, as far as the
       step's budget reaches. Who cannot get blocks preempts the last of the list, perhaps itself.
    2. Then waiting ones, from the head only, and only if nobody was preempted.
    3. A request whose chunk reached its last known token has one token more. With asynchronous
       scheduling the scheduler knows it one step later, so a finished request holds its blocks
       through one more step.

`events` does the same faster where at most one prompt is partly computed. Source: vllm 0.33.0,
v1/core/sched/scheduler.py schedule and update_from_output.
"""

from __future__ import annotations

from collections import deque

from kvplan.named_tuple import NamedTuple
from kvplan.replay.arrivals import ENDLESS, Arrivals
from kvplan.replay.cache import BlockCache
from kvplan.replay.facts import Facts
from kvplan.replay.meters import Meters
from kvplan.replay.request import Request
from kvplan.replay.states import aligned


class _Batch(NamedTuple):
    """What one step computes.

    Attributes:
        clock: of the step.
        chunks: (request, tokens, whether it samples).
    """

    clock: int
    chunks: list[tuple[Request, int, bool]]


class Walk:
    """One replay."""

    def __init__(self, facts: Facts, cache: BlockCache, arrivals: Arrivals, meters: Meters) -> None:
        self._facts = facts
        self._cache = cache
        self._arrivals = arrivals
        self._meters = meters
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._clock = 0

    def run(self) -> Request | None:
        """Run to the end of the trace, or to a request that can never be admitted."""
        arrivals, meters, cache = self._arrivals, self._meters, self._cache
        before: _Batch | None = None  # asynchronous: scheduled, its outcome not known
        while True:
            if not self._running and not self._waiting and arrivals.next_step > self._clock:
                if arrivals.next_step == ENDLESS:
                    return None
                self._clock = arrivals.next_step
            arrivals.come(self._clock, self._waiting)
            chunks, tokens = self._schedule()
            clock = self._clock
            if chunks:
                used = cache.pool.used
                queue = len(self._waiting) + arrivals.backlog
                meters.step(clock, len(self._running), queue, used, tokens)
                self._clock += 1
            elif before is None:
                return self._waiting[0]
            batch = self._compute(clock, chunks) if chunks else None
            if self._facts.async_scheduling:
                batch, before = before, batch
            if batch is not None:
                self._settle(batch)

    def _schedule(self) -> tuple[list[tuple[Request, int]], int]:
        facts, cache = self._facts, self._cache
        cache.start_step()
        budget = facts.max_num_batched_tokens
        alone = len(self._running) + len(self._waiting) <= 1  # a backlog is behind others
        most = 0 if alone else facts.long_prefill_token_threshold
        chunks: list[tuple[Request, int]] = []
        place, preempted = 0, False
        while place < len(self._running) and budget:
            request = self._running[place]
            place += 1
            new = self._lacking(request, budget, most)
            if not new:
                continue
            fits = cache.extend(request, new)
            while not fits:
                preempted = True
                victim = self._running.pop()
                self._preempt(victim)
                if victim is request:
                    break
                fits = cache.extend(request, new)
            if not fits:
                break
            chunks.append((request, new))
            budget -= new
        if not preempted:
            budget = self._admit(budget, most, chunks)
        return chunks, facts.max_num_batched_tokens - budget

    def _lacking(self, request: Request, budget: int, most: int) -> int:
        """Tokens that a running request gets in this step."""
        facts = self._facts
        computed, placeholders = request.computed, request.placeholders
        if placeholders and computed + 2 - placeholders >= request.prompt + request.output:
            return 0  # its last token is under way
        new = request.known + placeholders - computed
        if 0 < most < new:
            new = most
        new = min(new, budget, facts.max_model_len - computed - 1)
        return aligned(request, facts, computed, new) if facts.aligned_states else new

    def _admit(self, budget: int, most: int, chunks: list[tuple[Request, int]]) -> int:
        facts, cache, running = self._facts, self._cache, self._running
        while budget and self._waiting and len(running) < facts.max_num_seqs:
            request = self._waiting[0]
            reused = cache.find(request)
            new = request.known - reused
            if 0 < most < new:
                new = most
            new = min(new, budget)
            if facts.aligned_states:
                new = aligned(request, facts, reused, new)
                if not new:
                    break
            if not cache.admit(request, reused, new, alone=not running):
                break
            self._waiting.popleft()
            self._arrivals.refill(self._waiting)
            running.append(request)
            request.running = True
            request.computed = reused
            self._meters.admitted(request, self._clock, reused)
            chunks.append((request, new))
            budget -= new
        return budget

    def _preempt(self, victim: Request) -> None:
        self._cache.release(victim)
        self._meters.preemptions += 1
        victim.preemptions += 1
        victim.running = False
        victim.computed = 0
        victim.placeholders = 0
        victim.stale = victim.in_flight
        self._waiting.appendleft(victim)

    def _compute(self, clock: int, chunks: list[tuple[Request, int]]) -> _Batch:
        later = self._facts.async_scheduling
        computed = []
        for request, new in chunks:
            start = request.computed
            end = request.computed = start + new
            request.in_flight += new
            self._meters.chunk(request, start, end)
            samples = end >= request.known + request.placeholders
            if samples and later:
                request.placeholders += 1
            computed.append((request, new, samples))
        return _Batch(clock, computed)

    def _settle(self, batch: _Batch) -> None:
        """Learn what a step computed."""
        ended: set[Request] = set()
        for request, new, samples in batch.chunks:
            request.in_flight -= new
            stale = request.stale > 0
            if stale:
                request.stale -= new
            if not samples:
                continue
            request.seen += 1
            if request.seen == 1:
                request.first_token = batch.clock
            if request.placeholders and not stale:
                request.placeholders -= 1
                if request.running:
                    self._cache.remember(request, request.computed - request.in_flight)
            if request.seen >= request.output or request.known >= self._facts.max_model_len:
                self._cache.release(request)
                self._cache.forget(request)
                self._meters.ended(request, batch.clock)
                self._arrivals.ended(self._clock)
                ended.add(request)
        if ended:
            self._running = [request for request in self._running if request not in ended]
            if any(not request.running for request in ended):
                self._waiting = deque(r for r in self._waiting if r not in ended)
