"""Verdicts that must not be given: nothing compared, a start that ended, another model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main

# 11.2 GiB / 2,359,296 B = 5,097 blocks of 16 tokens (36 layers x 2 x 8 x 128 x 2 B x 16).
CONFIG = (
    "Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-8B', "
    "dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto\n"
)
POOL = (
    "Available KV cache memory: 11.20 GiB\n"
    "GPU KV cache size: 81,552 tokens\n"
    "Maximum concurrency for 8,192 tokens per request: 9.96x\n"
)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(text: str, *words: str) -> tuple[int, Any]:
        path = tmp_path / "engine.log"
        path.write_text(text, encoding="utf-8")
        code = main(["verify", *words, "--engine-log", str(path), "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return run


def named(answer: Any) -> dict[str, Any]:
    return {check["name"]: check for check in answer["checks"]}


def test_the_log_agrees(run: Any) -> None:
    """What the other tests change."""
    assert run(CONFIG + POOL)[0] == 0


@pytest.mark.parametrize(
    ("line", "code", "remedy"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
         "cuda-out-of-memory", "--gpu-memory-utilization"),
        ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (969).",
         "state-blocks-too-few", "--max-num-seqs"),
        ("RuntimeError: Engine core initialization failed. See root cause above.",
         "engine-died", "above"),
    ],
)  # fmt: skip
def test_a_start_that_ended_after_its_pool(run: Any, line: str, code: str, remedy: str) -> None:
    """The pool is right and the engine ended all the same: `starts` fails, with what helps."""
    exit_code, answer = run(f"{CONFIG}{POOL}{line}\n")

    starts = named(answer)["starts"]
    assert exit_code == 1
    assert starts["ok"] is False
    assert code in starts["measured"]
    assert remedy in starts["why"]
    assert named(answer)["capacity_tokens"]["ok"] is True


def test_nothing_compared_is_no_verdict(run: Any) -> None:
    """Exit code 2, `ok` null, and what is missing."""
    code, answer = run("# GPU blocks: 1952, # CPU blocks: -\n", "llama3-8b")

    assert code == 2
    assert answer["ok"] is None
    assert any("what would help" in note for note in answer["notes"])


def test_a_model_that_is_not_the_logs(run: Any) -> None:
    """MODEL keeps another cache than the model the log names: that alone fails."""
    code, answer = run(CONFIG + POOL, "llama3-8b")

    assert code == 1
    assert named(answer)["model"]["measured"] == "qwen3-8b"


def test_a_copy_of_the_model_is_the_model(run: Any) -> None:
    """Another name of the same cache is no disagreement."""
    code, answer = run(CONFIG + POOL, "qwen3-8b")

    assert code == 0
    assert "model" not in named(answer)


def test_the_assumed_gpu_is_said(run: Any) -> None:
    """Kernels differ by GPU, and a log need not name it."""
    notes = run(CONFIG + POOL)[1]["notes"]

    assert any("kernels as on h100 were taken" in note for note in notes)


def test_old_lines_of_tensorrt_llm(run: Any) -> None:
    """0.8: 100,608 tokens x 131,072 B = 13,186,891,776 B, in two lines."""
    text = (
        "[TensorRT-LLM][INFO] Allocate 13186891776 bytes for k/v cache.\n"
        "[TensorRT-LLM][INFO] Using 100608 total tokens in paged KV cache, and 4 blocks\n"
    )
    code, answer = run(text, "llama3-8b")

    assert code == 0
    assert answer["device"]["engine"] == "tensorrt_llm"


def test_old_lines_of_llamacpp(run: Any) -> None:
    """One size: 2 x 32 layers x 4,096 x 2 B x 2,048 tokens = 1,024 MB of 2^20 bytes."""
    text = (
        "llama_new_context_with_model: n_ctx      = 2048\n"
        "llama_new_context_with_model: kv self size  = 1024.00 MB\n"
    )
    assert run(text, "llama-2-7b")[0] == 0
    assert run(text, "llama3-8b")[0] == 1
