"""The plan that vLLM makes of a small model, asked on the command line.

The command's JSON is fixed, so what these tests say holds whatever the rooms behind it look like.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.cli import main
from tests.engines.vllm.steps import GIB, Plan


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """`plan(spec, memory, version, words...)`: the object that `kvplan fit --json` prints."""

    def ask(
        spec: dict[str, Any],
        memory: int = GIB,
        version: str = "0.33.0",
        words: Sequence[str] = (),
        args: str = "",
    ) -> dict[str, Any]:
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        line = ["fit", str(path), "--engine", f"vllm@{version}", "--json"]
        line += ["--available-memory", str(memory), *words]
        main([*line, "--engine-args", args] if args else line)
        out, err = capsys.readouterr()
        assert out, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    return ask
