"""How many vLLM plans a second kvplan makes: `python -m tests.bench.vllm`.

Time of planning the committed cases one after the other; specs are read beforehand. Prints the best
of the rounds and the slowest single case of that round.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kvplan.spec.model import ModelSpec
from tests.engines.vllm.replay import Case, committed, plan


def round_of(cases: list[Case], specs: Mapping[str, ModelSpec]) -> tuple[float, float, str]:
    """(seconds of all cases, seconds of the slowest, its id)."""
    total, slowest, name = 0.0, 0.0, ""
    for case in cases:
        start = time.perf_counter()
        plan(case, specs)
        took = time.perf_counter() - start
        total += took
        if took > slowest:
            slowest, name = took, case.id
    return total, slowest, name


def main(rounds: int = 7) -> None:
    """Print one line."""
    specs, cases = committed()
    total, slowest, name = min(round_of(cases, specs) for _ in range(rounds))
    each = total / len(cases) * 1000
    print(f"{'vllm plans':20} {len(cases) / total:,.0f} a second ({each:.2f} ms each,")
    print(f"{'':20} the slowest {slowest * 1000:.1f} ms: {name})")


if __name__ == "__main__":
    main()
