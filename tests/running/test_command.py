"""`kvplan verify --engine-log`: several starts, other hosts' paths, causes, and what is no log."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main

# Qwen3-8B keeps 36 layers x 8 heads x (128 + 128) x 2 bytes = 147,456 bytes a token, a block of 16
# takes 2,359,296 bytes; 18.69 GiB hold 8,505 or 8,506 blocks: 136,080 or 136,096 tokens.
CONFIG = (
    "(EngineCore_DP0 pid=7) INFO 09-21 10:00:00 [core.py:77] Initializing a V1 LLM engine (v{v}) "
    "with config: model='{model}', dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size="
    "{tp}, kv_cache_dtype=auto, enable_prefix_caching=True\n"
)
MEMORY = "INFO Available KV cache memory: 18.69 GiB\n"
POOL = (
    "INFO GPU KV cache size: 136,080 tokens\n"
    "INFO Maximum concurrency for 40,960 tokens per request: 3.32x\n"
)


def _config(model: str = "Qwen/Qwen3-8B", *, tp: int = 1, version: str = "0.11.0") -> str:
    return CONFIG.format(v=version, model=model, tp=tp)


class Run:
    """Runs the command on a text."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = folder / "engine.log", capsys

    def __call__(self, text: str, *words: str) -> tuple[int, Any, str]:
        self.path.write_text(text, encoding="utf-8")
        code = main(["verify", *words, "--engine-log", str(self.path), "--json"])
        out, err = self.capsys.readouterr()
        return code, json.loads(out) if out else None, err


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def test_the_log_names_everything(run: Run) -> None:
    """Model, version and settings come from the log, and the figures agree."""
    code, answer, _ = run(_config() + MEMORY + POOL)
    assert code == 0
    checks = {check["name"]: check for check in answer["checks"]}
    assert checks["capacity_tokens"]["measured"] == 136080
    assert checks["capacity_tokens"]["ok"]
    assert checks["max_concurrency"]["ok"]
    assert answer["model"]["name"] == "qwen3-8b"
    assert answer["device"]["rules"] == "vllm@0.11.0"


def test_the_last_complete_start_counts(run: Run) -> None:
    """A log of restarts: an earlier setup and a cut-off last start do not count, and it says so."""
    earlier = _config("meta-llama/Llama-3.1-8B-Instruct") + POOL
    code, answer, _ = run(earlier + _config() + MEMORY + POOL + _config(tp=2) + MEMORY)
    assert code == 0
    assert answer["model"]["name"] == "qwen3-8b"
    assert any("3 starts, 2 of them complete" in note for note in answer["notes"])


def test_a_truncated_log_says_so(run: Run) -> None:
    """Before the cache is sized there is nothing to compare: exit code 2 and what to do."""
    code, _, err = run(_config())
    assert code == 2
    assert "the log ends before that" in err


def test_other_programs_logs(run: Run) -> None:
    """No engine's line: which engines are known."""
    code, _, err = run("Jan 01 sshd[1]: Accepted publickey\n" * 5)
    assert code == 2
    assert "no line tells of the cache" in err
    assert "llama.cpp" in err


@pytest.mark.parametrize(
    ("text", "words", "cause"),
    [
        (_config(), ["--tp", "2"], "tensor_parallel_size 1, as the log says"),
        (_config(tp=2), [], "tensor_parallel_size 1"),
        (_config(), ["--dtype", "fp8"], "kv_cache_dtype auto, as the log says"),
        (_config(), ["llama3-8b"], "the log is of Qwen/Qwen3-8B"),
    ],
)
def test_causes_are_named(run: Run, text: str, words: list[str], cause: str) -> None:
    """One wrong setting: the figures disagree, and the setting that would fit is named."""
    code, answer, _ = run(text + MEMORY + POOL, *words)
    assert code == 1
    failed = [check for check in answer["checks"] if check["ok"] is False]
    assert failed
    assert any(cause in check["why"] for check in failed)


def test_replicated_heads_are_named(run: Run) -> None:
    """8 KV heads on 16 ranks: one each, a copy on every second; said as the cause on 8 ranks."""
    # 18.69 GiB / (147,456 / 8 x 16 bytes) = 68,046 blocks: the same on 8 and on 16 ranks; on 4 not.
    pool = POOL.replace("136,080", "1,088,656").replace("3.32x", "26.58x")
    code, answer, _ = run(_config(tp=4) + MEMORY + pool)
    assert code == 1
    assert "tensor_parallel_size 8" in json.dumps(answer["notes"])
    assert run(_config(tp=16) + MEMORY + pool)[0] == 0


def test_the_definition_of_the_line_is_named(run: Run) -> None:
    """Gemma 3 1B in 0.13 prints blocks // 7 groups x 16; 0.22 prints another figure."""
    log = (
        _config("google/gemma-3-1b-it", version="{version}").replace("40960", "2048")
        + "Available KV cache memory: 25.39 GiB\nGPU KV cache size: 950,864 tokens\n"
        "Maximum concurrency for 2,048 tokens per request: 461.21x\n"
    )
    assert run(log.replace("{version}", "0.13.0"))[0] == 0
    code, answer, _ = run(log.replace("{version}", "0.22.0"))
    assert code == 1
    assert "what its log line calls tokens changed in 0.9.1 and 0.20.1" in json.dumps(
        answer["notes"]
    )


def test_paths_of_other_hosts_are_not_opened(run: Run) -> None:
    """A log's model path is not opened here; a folder of the Hugging Face cache names an id."""
    code, answer, _ = run(_config("/etc/passwd") + MEMORY + POOL)
    assert code == 0  # tokens = concurrency x length needs no model
    assert answer["model"] is None
    assert any("by a path" in note for note in answer["notes"])
    cache = "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0123abcd"
    assert run(_config(cache) + MEMORY + POOL)[1]["model"]["name"] == "qwen3-8b"


def test_unknown_models_leave_the_logs_own_arithmetic(run: Run) -> None:
    """A fine-tune with a name of its own: what to give, and what can be said without it."""
    code, answer, _ = run(_config("someone/secret-model") + MEMORY + POOL)
    assert code == 0
    assert any("give MODEL" in note for note in answer["notes"])
    assert run(_config("someone/secret-model") + MEMORY + POOL, "qwen3-8b")[0] == 0


def test_standard_input_and_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`docker logs engine 2>&1 | kvplan verify --engine-log -`, colours included."""
    text = "".join(
        f"\x1b[1;36m(EngineCore pid=3)\x1b[0m {line}\n"
        for line in (_config() + MEMORY + POOL).splitlines()
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["verify", "--engine-log", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_v0_counts_swap_blocks_exactly(run: Run) -> None:
    """4 GiB of swap space / 2,359,296 bytes = 1,820 CPU blocks: no rounding, so a sharp check.

    Where the log does not state the swap space, a miss may be another one: undecided.
    """
    text = (
        "Initializing an LLM engine (v0.6.3) with config: model='Qwen/Qwen3-8B', dtype=torch."
        "bfloat16, max_seq_len=8192, tensor_parallel_size=1\n# GPU blocks: 8505, # CPU blocks: {}\n"
    )
    assert run(text.format(1820))[0] == 0
    assert run("args: Namespace(swap_space=4, seed=0)\n" + text.format(1821))[0] == 1
    checks = run(text.format(1821))[1]["checks"]
    assert {check["name"]: check["ok"] for check in checks} == {
        "num_blocks": None,
        "num_cpu_blocks": None,
    }
    # 8 GiB hold 3,640: a setting of the command line is stated too
    words = ["--engine-args", "--swap-space 8"]
    assert run(text.format(3640), *words)[0] == 0
    assert run(text.format(1820), *words)[0] == 1


@pytest.mark.parametrize(
    "config",
    [
        "tensor_parallel_size=0",
        "tensor_parallel_size=99999999999",
        "pipeline_parallel_size=999999999",
        "max_seq_len=0",
        "kv_cache_dtype=nonsense",
        "dtype=torch.int7",
        "speculative_config=SpeculativeConfig(method='mtp', model='-', num_spec_tokens=0)",
        "speculative_config=SpeculativeConfig(method='draft_model', model='-', num_spec_tokens=2)",
        "enable_prefix_caching=maybe",
    ],
)
def test_hostile_settings_end_in_words(run: Run, config: str) -> None:
    """Settings that no engine has are left out or refused, never a traceback."""
    head = "Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-8B'"
    text = f"{head}, {config}, a=b\n"
    code, answer, err = run(text + MEMORY + POOL)
    assert code in (0, 1, 2)
    assert answer is not None or err


def test_decode_and_a_log_contradict(run: Run) -> None:
    """A running engine is only read: nothing is allocated for it."""
    code, _, err = run(_config() + MEMORY + POOL, "--decode")
    assert code == 2
    assert "--decode" in err


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    """A laptop without torch can hold a server's log against the rules."""
    log = tmp_path / "engine.log"
    log.write_text(_config() + MEMORY + POOL, encoding="utf-8")
    script = (
        "import sys; from kvplan.cli import main; "
        f"code = main(['verify', '--engine-log', {str(log)!r}]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
