"""What one start of an engine said: its figures, the facts it named, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvplan.running.printed import Printed

# Figures by name; GiB as printed, counts in full.
AVAILABLE = "available_gib"
BLOCKS, CPU_BLOCKS = "num_blocks", "num_cpu_blocks"
CAPACITY, CONCURRENCY = "capacity_tokens", "max_concurrency"
NEEDED, NEEDED_AVAILABLE, LONGEST = "needed_gib", "refused_available_gib", "estimated_max_len"
POOL_TOKENS = "pool_tokens"
BLOCK_SIZE = "block_size"

STARTED, TOO_LONG, NO_MEMORY, FAILED = "started", "request_too_long", "no_memory", "failed"
OUTCOMES = {
    STARTED: "starts",
    TOO_LONG: "refuses: one request does not fit",
    NO_MEMORY: "refuses: no memory for the cache",
    FAILED: "fails at start",
}


# What can end a start once its pool is there, and what helps.
REMEDIES = {
    "cuda-out-of-memory": "leave the device more: a lower --gpu-memory-utilization or"
    " --max-num-seqs, or --enforce-eager",
    "state-blocks-too-few": "a --max-num-seqs of at most num_blocks, or --enforce-eager",
    "engine-died": "its own lines above say why",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A setting that a log names.

    Attributes:
        value: as written.
        line: where, counted from 1; 0 for the command line.
    """

    value: str
    line: int


@dataclass(slots=True)
class Seen:
    """One start of an engine, as far as its log tells.

    Attributes:
        engine: whose it is.
        first_line: where it begins.
        figures: the first value of each figure; of ranks that differ, the smallest.
        facts: settings by the engine's own names; `model` and `version` among them.
        terms: GiB of the engine's own budget, by name.
        outcome: STARTED, TOO_LONG, NO_MEMORY or FAILED once the log says so.
        v0: the lines are those of vLLM's first engine.
        failure: code of what ended a start that had its pool already, as in `REMEDIES`.
        pools: bytes of each pool that an engine lists, by name.
    """

    engine: str
    first_line: int
    figures: dict[str, Printed] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    terms: dict[str, Printed] = field(default_factory=dict)
    outcome: str | None = None
    v0: bool = False
    failure: str | None = None
    pools: dict[str, Printed] = field(default_factory=dict)

    def take(self, name: str, figure: Printed) -> None:
        """Note a figure; ranks print one each, and the smallest decides the pool."""
        known = self.figures.get(name)
        if known is None or figure.value < known.value:
            self.figures[name] = figure

    def learn(self, name: str, value: str, line: int) -> None:
        """Note a setting; the first word on it counts."""
        self.facts.setdefault(name, Fact(value, line))

    @property
    def tells(self) -> bool:
        """Whether it says anything of the cache."""
        found = self.figures or self.pools or self.outcome or self.terms or self.failure
        return bool(found)

    @property
    def complete(self) -> bool:
        """Whether it says how the cache turned out."""
        return (
            self.outcome is not None
            or self.failure is not None
            or CAPACITY in self.figures
            or BLOCKS in self.figures
        )
