"""vLLM's budget of one rank, line by line, each with its bounds and where it comes from.

    available = total x gpu_memory_utilization - weights - activations - non-torch - graphs

The fraction is of the device's total in every release, 0.9 up to 0.19 and 0.92 later. Each line can
be replaced by what the user knows, or by what a start-up log printed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.budget.vllm.activations import activations
from kvplan.budget.vllm.conditions import Conditions
from kvplan.budget.vllm.overheads import context, graphs, non_torch, subtracted_graphs
from kvplan.estimate import Estimate, exactly
from kvplan.named_tuple import NamedTuple

# Names of the lines, as the contract has them.
TOTAL, REQUESTED, WEIGHTS = "total", "requested", "weights"
ACTIVATIONS, NON_TORCH, GRAPHS, RESERVE, KV = (
    "activations", "non_torch", "graphs", "reserve", "kv",
)  # fmt: skip


class Budget(NamedTuple):
    """The lines of one rank.

    Attributes:
        lines: name and estimate, in order, the cache last.
        captured: CUDA graphs as they will be, whether or not they were taken off.
        uncharged: memory of the context that no line has.
    """

    lines: tuple[tuple[str, Estimate], ...]
    captured: Estimate
    uncharged: Estimate

    def line(self, name: str) -> Estimate:
        """The line of this name; zero where nothing is known of it."""
        return dict(self.lines).get(name) or exactly(0, "not known")

    @property
    def available(self) -> Estimate:
        """What is left for the cache."""
        return self.line(KV)

    @property
    def peak(self) -> Estimate:
        """What the device holds when all is done: the requested part, late graphs, the context."""
        late = self.captured.minus(self.line(GRAPHS))
        late = late._replace(low=max(late.low, 0), mid=max(late.mid, 0), high=max(late.high, 0))
        if self.line(GRAPHS).high == 0:
            late = self.captured
        return self.line(REQUESTED).plus(late).plus(self.uncharged)


def make_budget(
    given: Conditions,
    *,
    total: Estimate,
    fraction: float,
    fraction_origin: str,
    weights: Estimate,
    known: Mapping[str, Estimate] | None = None,
    reserve: int = 0,
) -> Budget:
    """The budget of one rank.

    Args:
        given: the start.
        total: the device's total.
        fraction: gpu_memory_utilization.
        fraction_origin: who settled it.
        weights: weights of the rank.
        known: lines that need no estimate.
        reserve: bytes to leave free beside.
    """
    known = known or {}
    requested = total.times(fraction)._replace(origin=f"total x {fraction:g} ({fraction_origin})")
    captured = known.get(GRAPHS) or graphs(given)
    taken = subtracted_graphs(given)
    if GRAPHS in known and taken.high:
        taken = known[GRAPHS]
    lines = {
        TOTAL: total,
        REQUESTED: known.get(REQUESTED, requested),
        WEIGHTS: known.get(WEIGHTS, weights),
        ACTIVATIONS: known.get(ACTIVATIONS) or activations(given),
        NON_TORCH: known.get(NON_TORCH) or non_torch(given),
        GRAPHS: taken,
    }
    left = lines[REQUESTED]
    for name in (WEIGHTS, ACTIVATIONS, NON_TORCH, GRAPHS):
        left = left.minus(lines[name])
    if reserve:
        lines[RESERVE] = exactly(reserve, "--reserve")
        left = left.minus(lines[RESERVE])
    lines[KV] = known.get(KV) or left._replace(origin="what is left for the cache")
    return Budget(tuple(lines.items()), captured, context(given))
