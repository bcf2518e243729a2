"""Several processes under torchrun: each measures its part; one that is killed is missed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvplan.plan.size import size

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.ranks,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident bytes"),
]

ROOT = Path(__file__).parents[2]


@contextmanager
def started(ranks: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """torchrun with a verify on each rank; ended with its children whatever the test finds."""
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
         "--standalone", "-m", "kvplan", "verify", "llama3-8b", "--device", "cpu",
         "--tp", str(ranks), *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.terminate()


def children(process: subprocess.Popen[str]) -> dict[int, int]:
    """Rank -> process id of what torchrun started."""
    found = {}
    for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in task.read_text().split():
            try:
                environment = Path(f"/proc/{child}/environ").read_text().split("\0")
            except OSError:
                continue
            ranks = [text[5:] for text in environment if text.startswith("RANK=")]
            if ranks:
                found[int(ranks[0])] = int(child)
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_together(ranks: int) -> None:
    """Each has its share of 8 heads; the sum is what `size` says, and one report comes."""
    with started(ranks, "--ctx", "300", "--json") as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    found = json.loads(out)
    whole = size("llama3-8b", ctx=300).logical.bytes
    sums = {check["name"]: check for check in found["checks"]}
    assert found["ok"] is True
    assert sums["tensor_bytes"]["measured"] == whole == 300 * 131_072
    assert sums["resident_bytes"]["difference"] == 0
    assert sums["ranks"]["measured"] == ranks
    assert "gloo" in sums["ranks"]["why"]
    assert [report["rank"] for report in found["ranks"]] == list(range(ranks))
    for report in found["ranks"]:
        own = {check["name"]: check["measured"] for check in report["checks"]}
        assert own["tensor_bytes"] == whole // ranks
    per_rank = [(rank["bytes"], rank["count"]) for rank in found["layout"]["per_rank"]]
    assert per_rank == [(whole // ranks, ranks)]


def test_a_rank_that_is_killed() -> None:
    """The other ends by itself with exit code 1, says so, and leaves no process behind."""
    with started(2, "--ctx", "40000") as process:
        pids: dict[int, int] = {}
        while len(pids) < 2 and process.poll() is None:
            pids = children(process)
            time.sleep(0.05)
        time.sleep(1.5)
        killed = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert time.monotonic() - killed < 30
    assert "another rank is gone" in err or "does not agree" in out
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_as_many_processes_as_ranks() -> None:
    """Two processes for four ranks is a mistake that is said, with exit code 2 inside each."""
    with started(2, "--ctx", "10", "--pp", "2") as process:
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1  # torchrun's own
    assert "2 processes were started, but the layout has 4 ranks" in err
    assert "exitcode  : 2" in err
