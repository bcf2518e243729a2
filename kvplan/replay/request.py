"""One request on its way: what it asked for, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan.named_tuple import NamedTuple

if TYPE_CHECKING:
    from kvplan.replay.nodes import Node, Table

NEVER = -1


class Row(NamedTuple):
    """One line of a trace.

    Attributes:
        t_ms: milliseconds after the first request.
        prompt, output: tokens.
        ids: what the prompt's text is, one id for each unit of tokens; None when nobody shares it.
    """

    t_ms: float
    prompt: int
    output: int
    ids: Sequence[int] | None = None


class Request:
    """A request in the scheduler's hands.

    Attributes:
        index: its place in the trace.
        arrive: the step from which it waits.
        prompt, output: tokens; no output goes past the longest length of the model.
        ids: see `Row`.
        seen: output tokens that the scheduler knows.
        computed: tokens whose keys and values are, or are about to be, in the cache.
        in_flight: those of them that the step before computes, whose outcome is not known yet.
        highest: most tokens that were ever computed, so what comes again is recomputed.
        order: position in the order of admission.
        started, due: the steps that sample its first token since it was admitted, and its last.
        base: while it decodes, `base` + clock tokens were computed before a step.
        placeholders, stale: tokens under way that count, and that came before a preemption.
        running: it holds blocks.
        first, first_token: steps of its first admission and of its first token.
        preemptions: how often it lost its blocks.
        tables: its blocks, one table for each group, None while it waits.
        path, junction, hit: see `texts` and `lookup`.
    """

    __slots__ = (
        "arrive", "base", "computed", "due", "first", "first_token", "highest", "hit", "ids",
        "in_flight", "index", "junction", "order", "output", "path", "placeholders",
        "preemptions", "prompt", "running", "seen", "stale", "started", "tables",
    )  # fmt: skip

    def __init__(
        self, index: int, arrive: int, prompt: int, output: int, ids: Sequence[int] | None
    ) -> None:
        self.index = index
        self.arrive = arrive
        self.prompt = prompt
        self.output = output
        self.ids = ids
        self.seen = 0
        self.computed = 0
        self.highest = 0
        self.in_flight = 0
        self.placeholders = 0
        self.stale = 0
        self.order = 0
        self.base = 0
        self.due = NEVER
        self.started = NEVER
        self.first = NEVER
        self.first_token = NEVER
        self.preemptions = 0
        self.running = False
        self.junction = 0
        self.tables: list[Table] | None = None
        self.path: list[Node] | None = None
        self.hit: object = None

    def decode_at(self, clock: int, lag: int) -> None:
        """Set what the scheduler knows of it when a step begins in which it decodes."""
        self.computed = self.base + clock
        self.seen = self.computed + 1 - lag - self.prompt
        if lag and clock > self.started + 1:
            self.in_flight = 1

    @property
    def known(self) -> int:
        """Tokens of its text so far, prompt and output."""
        return self.prompt + self.seen
