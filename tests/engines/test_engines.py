"""The protocol: every engine can be made, prepared once, and asked for plans, layouts, capacity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.cli import main
from kvplan.engines import ENGINE_NAMES, find_engine
from kvplan.engines.base import Engine, Prepared
from kvplan.engines.layout import CacheLayout, Plan
from kvplan.engines.request import Request
from kvplan.load import load_model

SPEC = """name: {name}
max_context: 4096
heads: 4
layers: 2
vocab_size: 100
{dtype}attention: {{ kind: full, kv_heads: 2, head_dim: 64 }}
"""


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_every_engine_answers_all_questions(name: str) -> None:
    """One token of Llama 3 8B is 131,072 bytes logically, and no engine takes less.

    llama.cpp's ctx is the whole context, whatever the slots.
    """
    spec = load_model("llama3-8b").spec
    engine, version = find_engine(name)
    assert isinstance(engine, Engine)

    prepared = engine.prepare(spec, Request(), version)
    plan = prepared.plan(1024, 2)
    layout = prepared.layout(1024, 2)
    capacity = prepared.capacity(2**34, 1024, 2)

    assert isinstance(prepared, Prepared)
    assert isinstance(plan, Plan)
    assert isinstance(layout, CacheLayout)
    assert plan.engine == layout.engine == capacity.engine == name
    sequences = 1 if name in ("llamacpp", "lmstudio") else 2
    assert layout.bytes >= sequences * 1024 * 131072
    assert plan.peak_bytes == layout.peak_bytes == layout.largest_rank
    assert capacity.fits


def test_equal_ranks_are_held_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A latent is copied to every rank: 4,096 of them are one entry that says so."""
    args = ["size", "deepseek-v3", "--ctx", "4096", "--engine", "vllm", "--tp", "8", "--dp", "512"]

    assert main([*args, "--json"]) == 0

    text = capsys.readouterr().out
    (entry,) = json.loads(text)["results"][0]["allocated"]["per_rank"]
    assert (entry["rank"], entry["count"]) == (0, 4096)
    assert len(text) < 20_000


def test_logical_has_no_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said in one line, also for a spec that does not say which format it runs in."""
    path = tmp_path / "nodtype.yaml"
    path.write_text(SPEC.format(name="m", dtype=""))

    assert main(["size", str(path), "--dtype", "bf16", "--engine", "logical@1"]) == 2
    assert "logical has no versions" in capsys.readouterr().err
    assert main(["size", str(path), "--engine", "logical@1"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["size", "fit"])
def test_a_draft_model_is_found_in_the_users_specs(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--specs reaches the model that --speculative-config names: 2 layers of target and draft."""
    for name in ("target", "draft"):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name, dtype="dtype: bfloat16\n"))
    config = json.dumps({"method": "draft_model", "model": "draft", "num_speculative_tokens": 2})
    line = [command, "target", "--ctx", "1024", "--engine", "vllm", "--specs", str(tmp_path)]
    line += ["--engine-args", f"--speculative-config '{config}'", "--json"]
    if command == "fit":
        line += ["--available-memory", "1GiB"]

    assert main(line) == 0

    found = json.loads(capsys.readouterr().out)
    figures = found["engine"] if command == "fit" else found["results"][0]["allocated"]
    # (2 + 2 layers) x 16 tokens x 2 x 2 heads x 64 x 2 B
    assert figures["bytes_per_block"] == [4 * 16 * 2 * 2 * 64 * 2]
