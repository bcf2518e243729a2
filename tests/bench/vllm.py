"""How many vLLM plans a second kvplan makes: `python -m tests.bench.vllm`.

Time of planning the committed cases one after the other; specs are read beforehand. Prints the best
of the rounds and the slowest single case of that round; then what one more plan of a prepared model
takes, a whole fit, and a table of a million cells. CPU time, the best of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kvplan.engines import find_engine
from kvplan.engines.base import Prepared
from kvplan.engines.request import Request
from kvplan.load import load_model
from kvplan.plan.fit import fit
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


def best(job: Callable[[], object], rounds: int = 7) -> float:
    """CPU seconds of the fastest of some runs."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return min(found)


def prepared(model: str, engine: str) -> Prepared:
    """A model of the catalogue under an engine's newest rules."""
    found, version = find_engine(engine)
    return found.prepare(load_model(model).spec, Request(), version)


def cells(model: str, engine: str) -> int:
    """Bytes and bytes per token of 1,000 lengths x 1,000 batches."""
    stairs = prepared(model, engine).staircase
    assert stairs is not None
    rows = stairs.rows(range(1024, 101_024, 100), range(1, 1001))
    return sum(len(row.bytes) for row in rows)


def steps() -> None:
    """Print what follows once a model is prepared."""
    for model in ("llama3-8b", "gemma-3-27b"):
        plans = prepared(model, "vllm")
        groups = len(plans.plan(8192, 4).groups)
        one = best(lambda plans=plans: [plans.plan(8192 + n, 4) for n in range(500)]) / 500
        loaded = load_model(model)
        whole = best(lambda loaded=loaded: fit(loaded, Request(ctx=8192), 24 * 2**30, "vllm"))
        print(
            f"{model:20} one more plan {one * 1e6:.1f} us ({groups} groups), fit"
            f" {whole * 1000:.2f} ms"
        )
    for engine in ("logical", "vllm"):
        took = best(lambda engine=engine: cells("gemma-3-27b", engine), 3)
        print(f"{engine:20} 1,000,000 cells of a table in {took:.2f} s")


def main(rounds: int = 7) -> None:
    """Print one line."""
    specs, cases = committed()
    total, slowest, name = min(round_of(cases, specs) for _ in range(rounds))
    each = total / len(cases) * 1000
    print(f"{'vllm plans':20} {len(cases) / total:,.0f} a second ({each:.2f} ms each,")
    print(f"{'':20} the slowest {slowest * 1000:.1f} ms: {name})")
    steps()


if __name__ == "__main__":
    main()
