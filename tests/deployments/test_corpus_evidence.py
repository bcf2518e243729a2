"""Collected deployment files against facts that people wrote down (`make evidence`)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from tests.evidence import FOLDER

DEPLOYMENTS = FOLDER / "deployments"


@pytest.mark.evidence
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its open files
def test_nothing_is_guessed_and_nothing_missed(tmp_path: Path) -> None:
    """No value where the file states none; no engine missed; 97 % right, the line too."""
    report = tmp_path / "report.json"
    assert main(["check", str(DEPLOYMENTS / "corpus"), "--facts", "-o", str(report)]) == 0

    mean, guessed, instances = _scorer().main(report, DEPLOYMENTS / "labels.json")
    assert guessed == 0
    assert instances["missed"] == 0
    assert mean >= 0.97


def _scorer() -> Any:
    spec = importlib.util.spec_from_file_location("score", DEPLOYMENTS / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
