"""Requests a second of the replay engines, on one core: python -m tests.bench.replay [TRACES].

TRACES is a folder with azure_2023_conv.csv, azure_2023_code.csv and mooncake_conversation.tsv; what
is not there is left out, and made-up traces of the same kind stand in.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kvplan.replay.facts import FULL, Facts, Group
from kvplan.replay.generated import Generated
from kvplan.replay.request import Row
from kvplan.replay.run import Load, Source, replay
from kvplan.replay.traces import MOONCAKE_UNIT, Trace

ROUNDS = 3
MANY = 1_000_000


def facts(num_blocks: int, *, caching: bool) -> Facts:
    """A model of full attention, as most are."""
    return Facts(
        groups=(Group(kind=FULL, block_size=16),), num_blocks=num_blocks, max_model_len=131_072,
        max_num_seqs=256, max_num_batched_tokens=8192, prefix_caching=caching,
        async_scheduling=True,
    )  # fmt: skip


def measure(name: str, deployment: Facts, source: Source, step_ms: float) -> None:
    """Print requests a second, the best of some rounds."""
    for digest in (False, True):
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time()
            outcome = replay(deployment, source, Load(step_ms=step_ms), digest=digest)
            best = min(best, time.process_time() - began)
        meters = outcome.meters
        hashed = "with hashes" if digest else "           "
        print(
            f"{name:28} {outcome.engine:9} {hashed} {meters.requests / best:10,.0f} requests/s,"
            f" {meters.steps / best:10,.0f} steps/s, {meters.preemptions:,} preemptions"
        )


def held(rows: Sequence[Row], unit: int, *, shares: bool) -> Source:
    """Rows in memory, so that reading is not measured."""
    return Source(rows=lambda: rows, unit=unit, shares_text=shares)


def main() -> None:
    """Print every figure."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for name, step_ms in (("azure_2023_conv.csv", 160.0), ("azure_2023_code.csv", 160.0)):
        if folder is not None and (folder / name).exists():
            rows = list(Trace(str(folder / name)).rows())
            measure(name, facts(60_000, caching=False), held(rows, 1, shares=False), step_ms)
    plain = Generated(kind="uniform", seed=1, requests=20_000, prompt=(50, 2000), output=(5, 420),
                      gap_ms=180.0)  # fmt: skip
    measure(
        "uniform", facts(60_000, caching=False), held(list(plain.rows()), 16, shares=False), 160
    )
    short = Generated(kind="shared", seed=1, requests=20_000, prompt=(20, 200), output=(20, 150),
                      gap_ms=20.0, common=512)  # fmt: skip
    measure("shared, short prompts", facts(8000, caching=True),
            held(list(short.rows()), 16, shares=True), 30)  # fmt: skip
    name = "mooncake_conversation.tsv"
    if folder is not None and (folder / name).exists():
        rows = list(Trace(str(folder / name)).rows())
        for blocks in (200_000, 40_000):
            measure(f"mooncake, {blocks:,} blocks", facts(blocks, caching=True),
                    held(rows, MOONCAKE_UNIT, shares=True), 40)  # fmt: skip
    many = Generated(kind="uniform", seed=1, requests=MANY, gap_ms=100.0)
    source = Source(rows=many.rows, unit=16, shares_text=False)
    began = time.process_time()
    replay(facts(60_000, caching=False), source, Load(step_ms=100.0))
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{MANY:,} made-up requests: {took:.1f} s, peak of the whole process {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
