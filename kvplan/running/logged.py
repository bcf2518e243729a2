"""What a start-up log of vLLM says about memory, for the next plan of the same start.

One log fixes every line of the budget but the CUDA graphs: total, fraction, weights, activation
peak, what is not torch's, and what was left. Printed with two decimals, so each line is known to
half a hundredth of a GiB. What the log does not print stays an estimate.

    0.6, 0.7 (V0)   one line with all terms; before 0.7 the peak has the weights inside
    0.8 on          weights when they are loaded, the rest when the memory was measured
    0.20 on         a free line: "Actual usage is ... GiB for weight, ... for peak activation ..."
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvplan.budget.vllm.budget import (
    ACTIVATIONS,
    GRAPHS,
    KV,
    NON_TORCH,
    REQUESTED,
    TOTAL,
    WEIGHTS,
)
from kvplan.errors import InputError
from kvplan.estimate import Estimate
from kvplan.running.readers import read_log
from kvplan.running.seen import AVAILABLE, Fact, Seen
from kvplan.units import GIB

_G = r"(-?\d{1,6}(?:\.\d{1,6})?)"
_LOADED = re.compile(rf"(?:Model loading|[Ll]oading model weights) took {_G} ?G")
_CAPTURED = re.compile(rf"Graph capturing finished.{{0,60}}?took {_G} ?GiB")
_CAPACITY = re.compile(rf"total capacity of {_G} ?GiB")
_LINES = {
    "total": TOTAL, "requested": REQUESTED, "weights": WEIGHTS, "activation": ACTIVATIONS,
    "non_torch": NON_TORCH,
}  # fmt: skip


class Logged(NamedTuple):
    """The budget of one start, as printed.

    Attributes:
        engine: whose log it is.
        version: its release, where it says.
        model: the model's name or path, where it says.
        fraction: gpu_memory_utilization, where it says.
        lines: budget lines that are known, by name.
        facts: settings by the engine's own names.
        name: the log's name.
    """

    engine: str
    version: str | None
    model: str | None
    fraction: float | None
    lines: Mapping[str, Estimate]
    facts: Mapping[str, Fact]
    name: str


def read_logged(text: Iterable[str], name: str) -> Logged:
    """The budget in a log.

    Raises:
        InputError: it is no start-up log, not vLLM's, or says nothing of the memory.
    """
    kept = list(text)
    reader, starts = read_log(kept, name, None)
    seen = starts.chosen
    if seen is None or reader.engine != "vllm":
        raise InputError(
            f"is a log of {reader.engine}; budgets are read from those of vllm",
            where=name,
            hint="give what it prints for its cache with --available-memory",
        )
    lines = _lines(seen, name)
    for key, pattern in ((WEIGHTS, _LOADED), (GRAPHS, _CAPTURED), (TOTAL, _CAPACITY)):
        if key not in lines:
            found = _largest(kept[max(seen.first_line - 1, 0) :], pattern)
            if found is not None:
                lines[key] = _printed(found, 0.005, name)
    if not lines:
        raise InputError(
            "says nothing of the memory", where=name, hint="pass the log from the start"
        )
    if seen.terms.get("weights") is None and _peak_has_weights(seen) and WEIGHTS in lines:
        peak = lines[ACTIVATIONS]
        lines[ACTIVATIONS] = peak.minus(lines[WEIGHTS])
    share = seen.terms.get("share")
    fact = seen.facts.get("gpu_memory_utilization")
    fraction = share.value if share is not None else _number(fact)
    version, model = seen.facts.get("version"), seen.facts.get("model")
    return Logged(
        reader.engine,
        version.value if version else None,
        model.value if model else None,
        fraction,
        lines,
        seen.facts,
        name,
    )


def _lines(seen: Seen, name: str) -> dict[str, Estimate]:
    lines = {}
    for term, line in _LINES.items():
        printed = seen.terms.get(term)
        if printed is not None:
            lines[line] = _printed(printed.value, printed.step / 2, name)
    available = seen.figures.get(AVAILABLE)
    if available is not None:
        lines[KV] = _printed(available.value, available.step / 2, name)
    return lines


def _peak_has_weights(seen: Seen) -> bool:
    """Before 0.7 one figure holds the weights and the peak above them."""
    activation, total = seen.terms.get("activation"), seen.terms.get("total")
    return seen.v0 and activation is not None and total is not None


def _printed(gib: float, slack: float, name: str) -> Estimate:
    low, mid, high = (round((gib + by) * GIB) for by in (-slack, 0.0, slack))
    return Estimate(low, mid, high, f"printed in {name}")


def _largest(lines: Iterable[str], pattern: re.Pattern[str]) -> float | None:
    """The largest figure: ranks print one each, and the fullest decides."""
    found = [float(match[1]) for line in lines if (match := pattern.search(line))]
    return max(found) if found else None


def _number(fact: Fact | None) -> float | None:
    try:
        return float(fact.value) if fact is not None else None
    except ValueError:
        return None
