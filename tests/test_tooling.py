"""The tools of this repository: one version of each, wherever it is named."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_ruff_is_the_same_everywhere():
    """In the development extra, before a commit, and in CI, which runs `make lint`."""
    (pinned,) = re.findall(r'"ruff==([\d.]+)"', PROJECT)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())

    assert [repo["rev"] for repo in hooks["repos"] if "ruff" in repo["repo"]] == [f"v{pinned}"]
    assert re.search(r'"mypy==[\d.]+"', PROJECT)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "make lint" in workflow
    assert not re.search(r"install .*(ruff|mypy)", workflow)


def test_every_job_ends_and_every_action_is_one_commit():
    """A tag can be moved; a commit cannot."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            assert job["timeout-minutes"] <= 30
            for step in job["steps"]:
                assert "uses" not in step or re.fullmatch(r".+@[0-9a-f]{40}", step["uses"])
