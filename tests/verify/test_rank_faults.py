"""Ranks that are stopped, never started or told to meet where they cannot: every wait ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.ranks,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident bytes"),
]
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def rank(
    number: int, port: object, *options: str, host: str = "127.0.0.1"
) -> subprocess.Popen[str]:
    """One of two ranks, without a launcher that would notice anything."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RANK": str(number), "WORLD_SIZE": "2",
        "LOCAL_RANK": str(number), "MASTER_ADDR": host, "MASTER_PORT": str(port),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "kvplan", "verify", "llama3-8b", "--device", "cpu", "--tp", "2",
         *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_host_of_the_meeting_is_stopped() -> None:
    """SIGSTOP on rank 0, which holds the store: rank 1 ends with exit code 1 and no memory."""
    port = free_port()
    ranks = [rank(number, port, "--ctx", "60000") for number in (0, 1)]
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and ranks[0].poll() is None:
            statm = Path(f"/proc/{ranks[1].pid}/statm").read_text().split()
            if int(statm[1]) * os.sysconf("SC_PAGE_SIZE") > 800 << 20:  # it measures
                break
            time.sleep(0.02)
        os.kill(ranks[0].pid, signal.SIGSTOP)
        out, err = ranks[1].communicate(timeout=40)
    finally:
        for one in ranks:
            one.kill()
            one.communicate()

    assert ranks[1].returncode == 1, out + err
    assert "stopped" in err or "silent" in err
    assert "Traceback" not in err


def test_a_rank_that_never_starts_and_places_that_cannot_be() -> None:
    """All could not run: exit code 2 and a sentence, within the time a rank may take to start."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ranks = [
            rank(0, free_port(), "--ctx", "10"),
            rank(0, taken.getsockname()[1], "--ctx", "10"),
            rank(1, 29500, "--ctx", "10", host="no.such.host.invalid"),
            rank(0, "no-port", "--ctx", "10"),
            rank(0, "9" * 5000, "--ctx", "10"),
        ]
        try:
            found = [(*one.communicate(timeout=60), one.returncode) for one in ranks]
        finally:
            for one in ranks:
                one.kill()

    for out, err, code in found:
        assert (code, out) == (2, ""), err
        assert 1 <= len(err.splitlines()) <= 3, err
        assert "Traceback" not in err


def test_a_limit_of_addresses() -> None:
    """Under `ulimit -v` torch would end the process; it is not loaded."""
    line = f"ulimit -v 400000; {sys.executable} -m kvplan verify llama3-8b --ctx 10"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False,
                          cwd=ROOT)  # fmt: skip

    assert done.returncode == 2
    assert "ulimit -v unlimited" in done.stderr
