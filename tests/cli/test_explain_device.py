"""`kvplan explain --gpu`: the least time of a decode step."""

from __future__ import annotations

import json

import pytest

from kvplan.cli import main


def test_the_bound_is_bytes_over_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    """8,030,261,248 parameters of 2 bytes and 1 GiB of cache, 3,350 GB/s: 5.11 ms."""
    assert main(["explain", "llama3.1-8b", "--ctx", "8k", "--gpu", "h100", "--json"]) == 0
    bound = json.loads(capsys.readouterr().out)["decode_bound"]

    assert bound["kv_bytes"] == 2**30
    expected = (8_030_261_248 * 2 + 2**30) / 3350e6
    assert bound["milliseconds"] == pytest.approx(expected, rel=0.01)
    assert main(["explain", "llama3.1-8b", "--ctx", "8k", "--gpu", "h100"]) == 0
    assert "on H100 SXM5 80 GB (a bound: memory bandwidth alone)" in capsys.readouterr().out


def test_without_bandwidth_there_is_no_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and why."""
    assert main(["explain", "llama3.1-8b", "--gpu", "h20"]) == 2
    assert "the bandwidth, or the weights, are not known" in capsys.readouterr().err
