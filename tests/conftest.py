"""What every test starts from: an environment without the user's settings, and a fixed seed."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.evidence import FOLDER

# Examples are the same on every run, so that a failure is the change's and never the dice's.
settings.register_profile(
    "kvplan",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("kvplan")

_SETTINGS = (
    "KVPLAN_SPECS", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE",
    "TTY_INTERACTIVE", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory):
    """No setting of whoever runs the tests reaches them, and no model in their home is found."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", os.path.join(tmp_path_factory.getbasetemp(), "no-such-home"))
    monkeypatch.setenv("OLLAMA_MODELS", os.path.join(tmp_path_factory.getbasetemp(), "none"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the evidence skip with what they need, where it is not at hand."""
    if FOLDER.is_dir():
        return
    skip = pytest.mark.skip(reason=f"no evidence at {FOLDER}: set KVPLAN_EVIDENCE to its folder")
    for item in items:
        if item.get_closest_marker("evidence"):
            item.add_marker(skip)
