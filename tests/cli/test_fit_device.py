"""`kvplan fit` with a device: budget, verdict, launch commands, logs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.units import GIB

LOG = """\
INFO 07-01 10:00:00 [api_server.py:1896] vLLM API server version 0.19.0
INFO 07-01 10:00:00 [utils.py:233] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', \
'max_model_len': 8192, 'gpu_memory_utilization': 0.95}
INFO 07-01 10:00:10 [gpu_model_runner.py:4000] Model loading took 14.99 GiB memory and 3.2 seconds
INFO 07-01 10:00:20 [gpu_worker.py:400] Available KV cache memory: 58.11 GiB
INFO 07-01 10:00:20 [kv_cache_utils.py:1300] GPU KV cache size: 476,032 tokens
INFO 07-01 10:00:30 [gpu_model_runner.py:5000] Graph capturing finished in 5 secs, took 0.91 GiB
"""


@pytest.fixture
def facts(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs fit and gives its exit code and JSON."""

    def run(*args: str) -> tuple[int, dict[str, Any]]:
        code = main(["fit", "--json", *args])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs fit, which must end with exit code 2, and gives what it says."""

    def run(*args: str) -> str:
        assert main(["fit", *args]) == 2
        return capsys.readouterr().err

    return run


def line(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in found["budget"] if item["name"] == name)


def test_a_budget_has_every_line_with_its_bounds(facts: Any) -> None:
    """Llama-3.1-8B on an H100 at 0.95, vllm 0.19.0: 58.11 GiB were printed as available."""
    code, found = facts(
        "llama3.1-8b", "--gpu", "h100", "--engine", "vllm@0.19.0", "--ctx", "8k",
        "--engine-args", "--gpu-memory-utilization 0.95",
    )  # fmt: skip

    assert code == 0
    assert (found["verdict"], found["fits"]) == ("fits", True)
    names = [item["name"] for item in found["budget"]]
    assert names == [
        "total", "requested", "weights", "activations", "non_torch", "graphs", "kv"
    ]  # fmt: skip
    assert all(item["low"] <= item["mid"] <= item["high"] for item in found["budget"])
    assert found["available_low"] <= 58.11 * GIB <= found["available_high"]
    assert abs(line(found, "kv")["mid"] - 58.11 * GIB) < 0.1 * GIB
    assert found["device"]["name"] == "h100"
    # 58.11 GiB hold 58 requests of 8,192 tokens, 1 GiB each.
    assert found["max_batch_at_ctx"] <= 58 <= found["max_batch_at_ctx_high"]


def test_weights_that_are_too_large_say_so(facts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """70 billion parameters of 2 bytes are 131 GiB."""
    code, found = facts("llama3.1-70b", "--gpu", "h100", "--ctx", "8k")

    assert (code, found["verdict"], found["binding_limit"]) == (1, "does-not-fit", "weights")
    assert found["min_devices"] in (2, 3)
    assert main(["fit", "llama3.1-70b", "--gpu", "h100", "--ctx", "8k"]) == 1
    assert "the weights alone are too large" in capsys.readouterr().out


def test_an_open_verdict_has_a_condition(facts: Any) -> None:
    """Exit code 0, with --strict 1; the condition is what the estimated lines may take."""
    args = ("qwen3-32b", "--gpu", "h100", "--ctx", "8k", "--dtype", "fp8")
    code, found = facts(*args)

    assert (code, found["verdict"], found["fits"]) == (0, "only-if", None)
    assert set(found["only_if"]["terms"]) == {"activations", "non_torch", "graphs"}
    spent = line(found, "weights")["mid"] + found["needed_bytes"]
    assert found["only_if"]["below_bytes"] == line(found, "requested")["mid"] - spent
    assert facts(*args, "--strict")[0] == 1


def test_state_blocks_below_max_num_seqs_end_a_start(facts: Any) -> None:
    """Qwen3.8-27B at 0.28.0: 1,024 default sequences, a few hundred blocks (a public report)."""
    code, found = facts(
        "qwen3.8-27b", "--engine", "vllm@0.28.0", "--gpu", "h100", "--ctx", "132000"
    )

    assert (code, found["verdict"], found["binding_limit"]) == (1, "does-not-fit", "state_blocks")
    assert 100 < found["max_num_seqs_that_starts"] < 1024
    assert 14 * GIB < line(found, "kv")["mid"] < 18 * GIB


def test_lines_that_are_known_replace_estimates(facts: Any) -> None:
    """With all of them stated nothing is open: 40 x 0.9 - 10 - 2 - 1 = 23 GiB."""
    _, found = facts(
        "llama3.1-8b", "--gpu-memory", "40GiB", "--engine", "vllm@0.19.0", "--ctx", "8k",
        "--weights-bytes", "10GiB", "--activations", "2GiB", "--non-torch", "1GiB",
    )  # fmt: skip

    assert abs(found["available_low"] - 23 * GIB) < 4
    assert found["available_low"] == found["available_high"]
    assert "max_batch_at_ctx_high" not in found


def test_a_reserve_comes_off(facts: Any) -> None:
    """2 GiB less for the cache."""
    args = ("llama3.1-8b", "--gpu", "h100", "--engine", "vllm@0.19.0", "--ctx", "8k")
    plain, less = facts(*args)[1], facts(*args, "--reserve", "2GiB")[1]

    assert plain["available_low"] - less["available_low"] == 2 * GIB


def test_several_devices_are_tensor_ranks(facts: Any) -> None:
    """Unless ranks are given; more ranks than devices are refused."""
    _, found = facts("llama3.1-70b", "--gpu", "h100:4", "--ctx", "8k")

    assert found["request"]["tp"] == 4
    assert found["device"]["count"] == 4
    assert "ranks-assumed" in [item["id"] for item in found["warnings"]]
    _, two = facts("llama3.1-8b", "--gpu", "h100:4", "--ctx", "8k", "--tp", "2")
    assert "idle-devices" in [item["id"] for item in two["warnings"]]


def test_a_shared_device_is_always_open(facts: Any) -> None:
    """Unified memory and AMD: what other programs do is charged, so no yes is certain."""
    for device in ("gb10", "mi300x"):
        _, found = facts("llama3.1-8b", "--gpu", device, "--ctx", "8k")

        assert found["verdict"] == "only-if", device


@pytest.mark.parametrize(
    ("command", "version", "tp"),
    [
        (["vllm", "serve", "Qwen/Qwen3-32B", "-tp", "2", "--max-model-len", "8192"], "0.33.0", 2),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-32B",
          "--max_model_len=8192", "--tensor-parallel-size", "2"], "0.33.0", 2),
        (["docker", "run", "--gpus", "all", "-e", "HF_TOKEN=x", "-p", "8000:8000",
          "vllm/vllm-openai:v0.19.0", "--model", "Qwen/Qwen3-32B", "--max-model-len", "8192",
          "-tp", "2"], "0.19.0", 2),
    ],
)  # fmt: skip
def test_a_launch_command_is_read(facts: Any, command: list[str], version: str, tp: int) -> None:
    """Model, ranks, length, and the release that an image's tag names."""
    for args in (["--", *command], ["--line", " ".join(command)]):
        code, found = facts("--gpu", "h100:2", *args)

        assert code == 0
        assert found["model"]["name"] == "qwen3-32b"
        assert (found["engine"]["version"], found["request"]["tp"]) == (version, tp)
        assert found["request"]["ctx"] == 8192
        assert found["warnings"] == []


def test_unknown_and_unfollowed_flags_are_named(facts: Any) -> None:
    """Others that leave the memory as it is say nothing."""
    _, found = facts(
        "--gpu", "h100", "--", "vllm", "serve", "llama3.1-8b", "--port", "8000", "--wibble", "3",
        "--kv-transfer-config", "{}", "--max-model-len", "8192",
    )  # fmt: skip
    notices = {item["id"]: item["message"] for item in found["warnings"]}

    assert set(notices) == {"unknown-flags", "flags-not-followed"}
    assert "--wibble" in notices["unknown-flags"]
    assert "--kv-transfer-config" in notices["flags-not-followed"]


def test_a_start_up_log_fixes_the_budget(facts: Any, tmp_path: Path) -> None:
    """Model, release, settings and what was left come from it; only rounding is open."""
    path = tmp_path / "start.log"
    path.write_text(LOG)
    code, found = facts("--from-log", str(path))

    assert code == 0
    assert found["engine"]["version"] == "0.19.0"
    assert found["request"]["ctx"] == 8192
    assert abs(found["available_low"] - 58.11 * GIB) < 0.006 * GIB
    assert line(found, "weights")["mid"] == round(14.99 * GIB)
    assert found["max_batch_at_ctx"] == 58


def test_stated_memory_above_the_device_is_warned_of(facts: Any) -> None:
    """80 GB is what the device has; 57 GiB is what its weights leave."""
    _, found = facts(
        "llama3.1-8b", "--engine", "vllm", "--gpu", "h100", "--available-memory", "80GB",
        "--ctx", "8k",
    )  # fmt: skip

    assert "available-above-device" in [item["id"] for item in found["warnings"]]


def test_an_engine_s_own_memory_needs_no_other(facts: Any) -> None:
    """--kv-cache-memory-bytes and --num-gpu-blocks-override alone."""
    for flag in ("--kv-cache-memory-bytes 4294967296", "--num-gpu-blocks-override 2048"):
        code, found = facts("llama3.1-8b", "--engine", "vllm", "--engine-args", flag, "--ctx", "8k")

        assert code == 0
        # 2,048 blocks of 16 tokens, 131,072 bytes a token
        assert found["available_bytes"] == 4 * GIB
        assert found["warnings"] == []


def test_memory_of_several_ranks_is_the_smallest(facts: Any) -> None:
    """Every rank holds an equal share."""
    _, found = facts("llama3.1-8b", "--engine", "vllm", "--available-memory", "12GiB,20GiB")

    assert found["available_bytes"] == 12 * GIB


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--gpu", "m3 max"), "no source says how much memory Apple M3 Max has"),
        (
            ("--gpu", "h100", "--engine-args", "--gpu-memory-utilization 1.2"),
            "--gpu-memory-utilization cannot be",
        ),
        (
            ("--gpu", "h100", "--engine-args", "--gpu-memory-utilization 0"),
            "--gpu-memory-utilization cannot be",
        ),
        (
            ("--gpu", "h100", "--engine-args", "--gpu-memory-utilization nan"),
            "--gpu-memory-utilization cannot be",
        ),
        (
            (
                "--gpu",
                "h100:0",
            ),
            "0 devices is outside 1 .. 4,096",
        ),
        (
            (
                "--gpu",
                "h100:10000",
            ),
            "10,000 devices is outside",
        ),
        (("--gpu", "h100:2", "--tp", "4"), "4 ranks (tp 4 x pp 1 x dp 1) on 2 devices"),
        (("--gpu", "h100", "--engine", "logical"), "the logical figure has no budget"),
        (("--gpu", "h100", "--engine", "transformers"), "what transformers leaves for its cache"),
        (("--gpu", "h100", "--line", "echo hello"), "launches no engine that kvplan reads"),
        ((), "how much memory has one rank for its cache?"),
    ],
)
def test_what_cannot_be_answered_says_why(
    refused: Any, args: tuple[str, ...], complaint: str
) -> None:
    """One to three lines, exit code 2."""
    said = refused("llama3.1-8b", *args)

    assert complaint in said
    assert said.count("\n") <= 3


def test_a_slice_has_the_steps_of_its_own_memory(facts: Any) -> None:
    """A tenth of an H100 has its kernels and the defaults of a small device: 256 sequences."""
    _, found = facts(
        "qwen3-0.6b", "--gpu", "h100 mig-1g.10gb", "--engine", "vllm@0.19.0", "--ctx", "4096"
    )

    assert found["request"]["options"]["gpu"] == "h100"
    assert found["request"]["options"]["max_num_seqs"] == "256"
    assert 8.7 * GIB < found["device"]["total_bytes"] < 10 * GIB
    assert found["verdict"] == "fits"


def test_a_reserve_above_the_device_leaves_nothing(facts: Any) -> None:
    """A clear no, not an error."""
    code, found = facts("llama3.1-8b", "--gpu", "h100", "--ctx", "8k", "--reserve", "500GiB")

    assert (code, found["verdict"]) == (1, "does-not-fit")


def test_unknown_weights_ask_for_them(refused: Any, tmp_path: Path) -> None:
    """A spec without sizes: what to give instead."""
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nlayers: 2\nattention: {kv_heads: 2, head_dim: 64}\nmodel_type: llama\n"
        "architecture: LlamaForCausalLM\nheads: 4\nhidden_size: 256\nmax_context: 4096\n"
        "dtype: bfloat16\n"
    )
    said = refused(str(path), "--gpu", "h100")

    assert "the weights of own are not known" in said
    assert "--weights-bytes" in said
