"""Traces that are made up from a seed, so that a question needs no file.

    uniform   independent prompts and answers, lengths uniform, arrivals Poisson
    shared    a few long beginnings, each with a tail of its own
    chat      sessions that send their whole history again with every turn

The same seed gives the same trace with every release of Python: only `random.Random`'s documented
generator and its methods are used.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvplan.errors import UsageError
from kvplan.replay.request import Row

UNIT = 16  # tokens of one id
_FIRST_ID = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A made-up trace.

    Attributes:
        kind: uniform, shared or chat.
        seed: of the generator.
        requests: how many, at most.
        prompt, output: fewest and most tokens; of `shared` of the tail, of `chat` of one turn.
        gap_ms: mean time between two arrivals, 0 for all at once.
        groups, common: of `shared`: how many beginnings, and the tokens of one.
        sessions, turns, spread_ms, think_ms: of `chat`: how many, most turns of one, the time over
            which they start, the mean time between a turn and the next.
        unit: tokens of one id.
    """

    kind: str
    seed: int
    requests: int
    prompt: tuple[int, int] = (100, 1000)
    output: tuple[int, int] = (50, 400)
    gap_ms: float = 1000.0
    groups: int = 8
    common: int = 1024
    sessions: int = 100
    turns: int = 8
    spread_ms: float = 60_000.0
    think_ms: float = 10_000.0
    unit: int = UNIT

    def rows(self) -> Iterator[Row]:
        """The trace, in order of arrival.

        Raises:
            UsageError: there is no such kind.
        """
        make = _KINDS.get(self.kind)
        if make is None:
            raise UsageError(
                f"there is no generated trace {self.kind!r}", hint=f"one of {', '.join(_KINDS)}"
            )
        return make(self, random.Random(self.seed))

    @property
    def shares_text(self) -> bool:
        """Whether requests have text in common."""
        return self.kind != "uniform"


def _gap(trace: Generated, source: random.Random) -> float:
    return source.expovariate(1.0 / trace.gap_ms) if trace.gap_ms else 0.0


def _uniform(trace: Generated, source: random.Random) -> Iterator[Row]:
    now = 0.0
    for _ in range(trace.requests):
        prompt = source.randint(*trace.prompt)
        output = source.randint(*trace.output)
        yield Row(now, prompt, output)
        now += _gap(trace, source)


def _shared(trace: Generated, source: random.Random) -> Iterator[Row]:
    units = trace.common // trace.unit
    heads = [
        list(range(_FIRST_ID + group * units, _FIRST_ID + (group + 1) * units))
        for group in range(trace.groups)
    ]
    now = 0.0
    for _ in range(trace.requests):
        # The first ones are the most popular.
        pick = min(int(source.expovariate(1.0) * trace.groups / 3), trace.groups - 1)
        prompt = units * trace.unit + source.randint(*trace.prompt)
        output = source.randint(*trace.output)
        yield Row(now, prompt, output, heads[pick])
        now += _gap(trace, source)


def _chat(trace: Generated, source: random.Random) -> Iterator[Row]:
    found: list[Row] = []
    following = _FIRST_ID
    for _ in range(trace.sessions):
        now = source.uniform(0, trace.spread_ms)
        history: list[int] = []
        for _ in range(source.randint(1, trace.turns)):
            units = source.randint(*trace.prompt) // trace.unit + 1
            history = [*history, *range(following, following + units)]
            following += units
            output = source.randint(*trace.output)
            found.append(Row(now, len(history) * trace.unit, output, history))
            # The answer is history too, though nobody computed it under these ids.
            units = output // trace.unit + 1
            history = [*history, *range(following, following + units)]
            following += units
            now += source.expovariate(1.0 / trace.think_ms)
    found.sort(key=lambda row: row.t_ms)
    yield from found[: trace.requests]


_KINDS: dict[str, Callable[[Generated, random.Random], Iterator[Row]]] = {
    "uniform": _uniform, "poisson": _uniform, "shared": _shared, "chat": _chat,
}  # fmt: skip
