"""`kvplan gpus`: the list, one device, a machine."""

from __future__ import annotations

import json

import pytest

from kvplan.cli import main


def test_the_list_has_every_device_and_marks_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory that no program printed stands with a tilde; a blank has no source."""
    assert main(["gpus"]) == 0
    lines = capsys.readouterr().out.splitlines()

    by_name = {line.split()[0]: line for line in lines if line.strip()}
    assert "79.19" in by_name["h100"]
    assert "~" not in by_name["h100"]
    assert "~" in by_name["l40"]
    assert "GiB" not in by_name["apple-m4"]


def test_a_machine_shows_its_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight devices of one kind, in the contract's names."""
    assert main(["gpus", "p5.48xlarge", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["schema"] == "kvplan.gpus/1"
    (device,) = found["gpus"]
    assert (device["name"], device["count"]) == ("h100", 8)
    assert device["compute_capability"] == "9.0"
    assert "p5.48xlarge (8)" in device["machines"]


def test_an_unknown_device_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines, exit code 2."""
    assert main(["gpus", "h10O"]) == 2
    error = capsys.readouterr().err

    assert "is not a device that kvplan knows" in error
    assert "h100" in error
    assert error.count("\n") == 2
