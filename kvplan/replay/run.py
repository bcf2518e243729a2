"""One replay from its parts: which engine is exact for it, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kvplan.replay.arrivals import Arrivals
from kvplan.replay.cache import BlockCache
from kvplan.replay.calendar import BlockCalendar, only_grows
from kvplan.replay.counting import CountingCache
from kvplan.replay.depth import Depth
from kvplan.replay.events import Events, Preempted
from kvplan.replay.facts import Facts
from kvplan.replay.meters import Meters
from kvplan.replay.request import Request, Row
from kvplan.replay.walk import Walk

COUNTING, BLOCKS = "counting", "blocks"
_AMPLE = 1 << 50  # blocks that no trace fills


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How requests come.

    Attributes:
        step_ms: milliseconds of trace time in one step; 0 for all at once.
        clients: of a closed loop, 0 for none.
    """

    step_ms: float = 0.0
    clients: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where requests come from.

    Attributes:
        rows: the trace, from its beginning each time it is asked.
        unit: tokens of one id of its texts.
        shares_text: whether its lines say what text they have.
    """

    rows: Callable[[], Iterable[Row]]
    unit: int
    shares_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a replay found.

    Attributes:
        facts: of the deployment.
        meters: all counts.
        engine: `counting`, or `blocks`.
        stuck: index of the request that can never be admitted, None when all ran.
        partial: why the trace was not read to its end, None when it was.
        smallest_pool: blocks of the smallest pool that changes nothing, None when not known.
    """

    facts: Facts
    meters: Meters
    engine: str
    stuck: int | None = None
    partial: str | None = None
    smallest_pool: int | None = None


def replay(
    facts: Facts,
    source: Source,
    load: Load,
    *,
    digest: bool = True,
    ended: Callable[[Request, int], None] | None = None,
    partial: bool = False,
) -> Outcome:
    """Run a trace.

    Args:
        digest: hash every step.
        ended: told of every request that has its last token, and of the step.
        partial: a line that cannot be read ends the trace instead of the replay.

    Raises:
        InputError: a line that cannot be read.
    """
    nothing_found = not (facts.prefix_caching and source.shares_text)
    counts = nothing_found and only_grows(facts) and not facts.visits_all
    if counts and facts.prefix_caching:
        counts = ended is None  # a second run would tell twice
    for counting in (True, False) if counts else (False,):
        meters = Meters(digest=digest, ended=ended)
        rows = _Rows(source.rows(), partial=partial)
        arrivals = Arrivals(rows, step_ms=load.step_ms, clients=load.clients)
        stepper: Walk | Events
        cache: BlockCache | BlockCalendar | CountingCache
        if facts.visits_all:
            cache = BlockCache(facts, source.unit)
            stepper = Walk(facts, cache, arrivals, meters)
        elif counting:
            cache = CountingCache(facts)
            # What was preempted may be found again, by itself.
            until = facts.prefix_caching
            stepper = Events(facts, cache, arrivals, meters, until_preempted=until)
        else:
            cache = BlockCalendar(facts, source.unit)
            stepper = Events(facts, cache, arrivals, meters)
        try:
            stuck = stepper.run()
        except Preempted:
            continue
        break
    if stuck is not None:
        meters.unfinished(arrivals.unserved())
    return Outcome(
        facts=facts, meters=meters, partial=rows.why,
        engine=COUNTING if counting or not facts.prefix_caching else BLOCKS,
        stuck=None if stuck is None else stuck.index,
        smallest_pool=_smallest(facts, cache.depth, meters) if nothing_found else None,
    )  # fmt: skip


def _smallest(facts: Facts, depth: Depth, meters: Meters) -> int | None:
    if meters.preemptions or not meters.requests or facts.aligned_states:
        return None
    return depth.smallest_pool(facts, meters.peak_blocks)


def ample(facts: Facts) -> Facts:
    """The same deployment with a pool that nothing fills."""
    return replace(facts, num_blocks=_AMPLE)


class _Rows:
    """A trace; with `partial` a line that cannot be read is its end."""

    def __init__(self, rows: Iterable[Row], *, partial: bool) -> None:
        self._rows = rows
        self._partial = partial
        self.why: str | None = None

    def __iter__(self) -> Iterator[Row]:
        from kvplan.errors import InputError

        try:
            yield from self._rows
        except (InputError, KeyboardInterrupt) as error:
            if not self._partial:
                raise
            self.why = str(error) or "interrupted"
