"""Logs of other engines, held against the logical figure until their layouts are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main


def _run(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, Any]]:
    path = folder / "engine.log"
    path.write_text(text, encoding="utf-8")
    code = main(["verify", *words, "--engine-log", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out or "{}")


# One row per published figure; bytes per token written out beside it.
CASES = [
    # 94 layers x max(1, 4 heads / 4 ranks) x 128 x 2 bytes = 24,064 each for K and V
    ("KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
     "Qwen/Qwen3-235B-A22B", ["--tp", "4"]),
    # 61 layers x 576 x 2 bytes = 70,272
    ("KV Cache is allocated. #tokens: 274934, KV size: 17.99 GB", "deepseek-v3", []),
    # 32 layers x 8 heads x 128 x 2 bytes = 65,536 each
    ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 20480, K size: 1.25 GB, "
     "V size: 1.25 GB",
     "meta-llama/Llama-3.1-8B-Instruct", []),
    # TensorRT-LLM: 32 x 8 x (128 + 128) x 2 = 131,072
    ("[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.00 GiB for max tokens in paged KV cache "
     "(64)\n"
     "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache "
     "(220480).", "meta-llama/Llama-3.1-8B-Instruct", []),
    # llama.cpp: 16 full layers x 4 heads x 256 x 2 bytes x 262,144 cells
    ("llama_kv_cache: size = 16384.00 MiB (262144 cells,  16 layers,  1/1 seqs), "
     "K (f16): 8192.00 MiB, V (f16): 8192.00 MiB", "Qwen/Qwen3.5-27B", []),
    # 16 x 4 x 256 x 18/32 bytes (q4_0) x 8,192
    ("llama_kv_cache_unified: size =  144.00 MiB (  8192 cells,  16 layers,  1 seqs), "
     "K (q4_0):   72.00 MiB, V (q4_0):   72.00 MiB", "Qwen/Qwen3.5-27B", []),
    # gpt-oss-20b: 12 full layers and 12 windows x 8 heads x 64 x 2 bytes
    ("llama_kv_cache: size = 3072.00 MiB (131072 cells, 12 layers, 1/1 seqs), "
     "K (f16): 1536.00 MiB, V (f16): 1536.00 MiB\n"
     "llama_kv_cache: size =   54.00 MiB (  2304 cells, 12 layers, 1/1 seqs), "
     "K (f16):   27.00 MiB, V (f16):   27.00 MiB", "openai/gpt-oss-20b", []),
    # Ollama: 131,072 bytes x 8,192 tokens
    ('msg=offload library=cuda memory.required.kv="1.0 GiB" memory.required.full="6.5 GiB"\n'
     "msg=starting cmd=\"ollama runner --ctx-size 8192 --parallel 4\"", "llama3-8b", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "model", "words"), CASES)
def test_published_figures_agree(
    text: str, model: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures of start-up logs equal the formula within their rounding, and the basis is said."""
    code, answer = _run(text, tmp_path, capsys, model, *words)
    assert code == 0, answer
    assert all("logical figure" in check["why"] for check in answer["checks"])


@pytest.mark.parametrize(("text", "model", "words"), CASES[:5])
def test_another_model_disagrees(
    text: str, model: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same figures are not those of a model with other heads."""
    code, answer = _run(text, tmp_path, capsys, "Qwen/Qwen2.5-0.5B", *words)
    assert code in (1, 2)  # 2 where all that could be compared is undecided
    assert True not in [check["ok"] for check in answer["checks"]]


def test_windows_and_states_stay_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SGLang's window pool is a pool of its own: shown, not judged."""
    text = (
        "KV Cache is allocated. #tokens: 805556, K size: 10.76 GB, V size: 10.76 GB\n"
        "SWAKVPool mem usage: 64.52 GB, swa size: 644444, full size: 805556\n"
    )
    code, answer = _run(text, tmp_path, capsys, "google/gemma-4-E4B-it")
    assert code == 2  # nothing was compared
    undecided = [check for check in answer["checks"] if check["ok"] is None]
    assert undecided
    assert False not in [check["ok"] for check in answer["checks"]]


def test_a_log_without_a_model_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only vLLM's log names its model surely."""
    path = tmp_path / "log"
    path.write_text(CASES[1][0], encoding="utf-8")
    assert main(["verify", "--engine-log", str(path)]) == 2
    assert "give MODEL" in capsys.readouterr().err
