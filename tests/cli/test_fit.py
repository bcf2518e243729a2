"""`kvplan fit`, and an engine's options, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main

FIT = ("fit", "llama3.1-8b", "--available-memory", "1GiB", "--ctx", "4k")
SIZE = ("size", "llama3.1-8b", "--ctx", "4k")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """(exit code, stdout in one line, stderr) of a command."""

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), err

    return command


@pytest.fixture
def facts(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON object of a command."""

    def command(*args: str) -> Any:
        main([*args, "--json"])
        return json.loads(capsys.readouterr().out)

    return command


def test_the_page_says_when_the_peak_is(run: Any) -> None:
    """Windows are views of the whole prompt right after a prefill; no log line to compare with."""
    code, out, _ = run(
        "fit", "gpt-oss-20b", "--available-memory", "1GiB", "--engine", "transformers", "--ctx",
        "32k",
    )  # fmt: skip
    assert code == 1
    assert "needed 1.50 GiB (1,610,612,736 bytes) on the fullest rank, right after the" in out
    assert "771.00 MiB (808,452,096 bytes) afterwards" in out
    assert "for the cache of one rank, 512.00 MiB short" in out
    assert "log line" not in out


def test_a_near_miss_is_a_figure(run: Any) -> None:
    """255 usable blocks of 2 MiB where 256 are needed, in 512 MiB."""
    args = ("fit", "llama3.1-8b", "--ctx", "4k", "--engine", "vllm", "--available-memory")
    assert ", 2.00 MiB short" in run(*args, "512MiB")[1]
    assert ", 0 B to spare" in run(*args, "514MiB")[1]


def test_the_logical_page_knows_no_ranks(run: Any) -> None:
    """The whole model against the memory."""
    code, out, _ = run(*FIT)
    assert code == 0
    assert "needed 512.00 MiB (536,870,912 bytes) available" in out
    assert "rank" not in out


def test_both_formats_stand_in_the_header(run: Any) -> None:
    """K in q8_0, V in q4_0."""
    out = run(*FIT, "--dtype-k", "q8_0", "--dtype-v", "q4_0")[1]
    assert "x 1 sequence, q8_0/q4_0, basis logical" in out


@pytest.mark.parametrize("text", ["40", "0", "-5"])
def test_memory_for_no_cache_is_answered_with_a_warning(run: Any, text: str) -> None:
    """A number without its unit is bytes: the answer is no, and says what was probably meant."""
    code, out, _ = run("fit", "llama3-8b", "--available-memory", text)
    assert code == 1
    assert f"{text} bytes hold no cache; a size may have a unit: 40GiB" in out


def test_an_engine_without_memory_says_so_itself(run: Any) -> None:
    """0 bytes are an answer of vLLM's, too."""
    args = ("fit", "llama3-8b", "--engine", "vllm", "--available-memory", "0")
    code, out, _ = run(*args)
    assert code == 1
    assert "no memory is left for the cache" in out


def test_a_fixed_state_fits_any_context(run: Any, facts: Any) -> None:
    """In words, and as null."""
    args = ("fit", "falcon-mamba-7b", "--available-memory", "1GiB", "--ctx", "1k")
    assert "context any (a fixed state) for 1 sequence" in run(*args)[1]
    assert facts(*args)["max_ctx_at_batch"] is None


def test_what_keeps_nothing_fits_in_any_number_and_length(run: Any, tmp_path: Path) -> None:
    """No figure is made up where none matters."""
    spec = tmp_path / "empty.yaml"
    spec.write_text("name: x\ndtype: bfloat16\nlayers: 2\nattention: {kind: none}\n")
    code, out, _ = run("fit", str(spec), "--available-memory", "1GiB")

    assert code == 0
    assert "sequences any number of any length context any" in out


def test_an_early_refusal_has_no_empty_section(run: Any) -> None:
    """The refusal stands once, no heading stands over nothing."""
    code, out, _ = run(*FIT, "--engine", "vllm", "--tp", "3")
    assert code == 1
    assert "needed not known, because the engine refuses the request" in out
    assert out.count("vllm 0.33.0") == out.count("basis vllm 0.33.0") + out.count("(vllm 0.33.0")


def test_warnings_of_size_are_in_fit(run: Any, facts: Any) -> None:
    """In the table and in JSON."""
    args = ("fit", "llama3-8b", "--available-memory", "40GiB", "--ctx", "9000")
    assert "[ctx-above-maximum]" in run(*args)[1]
    assert [w["id"] for w in facts(*args)["warnings"]] == ["ctx-above-maximum"]


def test_a_refusal_is_no_size(run: Any, facts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A headline in the table, null in JSON, a column of its own in CSV."""
    args = (*SIZE, "--engine", "vllm", "--tp", "3")
    code, out, _ = run(*args)
    assert code == 1
    assert "vllm 0.33.0 refuses to start: 32 attention heads do not divide among 3" in out
    assert "sets aside" not in out
    allocated = facts(*args)["results"][0]["allocated"]
    assert allocated["bytes"] is None
    refusal = allocated["refusal"]
    assert sorted(refusal) == ["code", "exception", "figures", "message"]
    assert refusal["code"] == "heads-not-divisible"
    assert refusal["figures"] == {"heads": 32, "tp": 3}
    main([*args, "--format", "csv"])
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["allocated_bytes"] == ""
    assert row["refusal"] == "heads-not-divisible"


@pytest.mark.parametrize(
    ("engine", "version"), [("vllm@9.9.9", "0.33.0"), ("transformers@4.40.0", "4.57.6")]
)
def test_an_unknown_version_is_a_warning_everywhere(
    run: Any, facts: Any, engine: str, version: str
) -> None:
    """The version shown is that of the rules."""
    name, asked = engine.split("@")
    warning = f"{name} {asked} is not known to kvplan; rules of {version} were used"
    for args in (SIZE, FIT):
        out = run(*args, "--engine", engine)[1]
        assert f"{name} {version}" in out
        assert f"{warning} [engine-version]" in out
    (result,) = facts(*SIZE, "--engine", engine)["results"]
    assert result["request"]["engine_version"] == version
    assert result["warnings"] == [{"id": "engine-version", "message": warning}]
    found = facts(*FIT, "--engine", engine)
    assert found["engine"]["version"] == version
    assert found["warnings"] == result["warnings"]
    assert run(*SIZE, "--engine", engine, "--format", "csv")[1].endswith(",engine-version")


def test_how_an_engine_is_named(run: Any) -> None:
    """In any case; a version that is not there is an error."""
    assert run(*SIZE, "--engine", "VLLM")[0] == 0
    assert run(*SIZE, "--engine", "Logical")[0] == 0
    code, _, err = run(*SIZE, "--engine", "vllm@")
    assert code == 2
    assert "names no version" in err


@pytest.mark.parametrize("flag", [("--gpu", "h100"), ("--explain-layout",), ("--block-size", "16")])
def test_engine_flags_need_an_engine(run: Any, flag: tuple[str, ...]) -> None:
    """The logical figure has none."""
    code, _, err = run(*SIZE, *flag)
    assert code == 2
    assert f"{flag[0]} is an engine's flag, and the logical figure has no engine" in err


def test_defaults_are_named_and_explained(run: Any) -> None:
    """Their values in one line of size, their sources with --explain-layout."""
    short = run(*SIZE, "--engine", "vllm")[1]
    assert "defaults it applied: gpu h100, gpu_memory_utilization 0.92" in short
    full = run(*SIZE, "--engine", "vllm", "--explain-layout")[1]
    assert "gpu = h100 (kvplan: no device named; kernels as on Hopper)" in full
    assert "defaults it applied: " not in full


def test_equal_tensors_are_one_line(run: Any) -> None:
    """32 layers x 8 heads x 4,096 tokens x 128 x 2 bytes of keys; one rank needs no column."""
    out = run(*SIZE, "--engine", "transformers", "--explain-layout")[1]
    assert "layers.*.keys 32 1 x 8 x 4,096 x 128 bfloat16 8,388,608 268,435,456" in out
    assert "rank" not in out
    two = run(*SIZE, "--engine", "transformers", "--explain-layout", "--tp", "2")[1]
    assert "rank tensor count" in two
    assert "1 layers.*.keys 32 1 x 4 x 4,096 x 128 bfloat16 4,194,304 134,217,728" in two


def test_a_paged_cache_has_a_layout_page(run: Any) -> None:
    """Its groups are counted by type; its one tensor is listed."""
    args = (*SIZE, "--engine", "transformers", "--explain-layout")
    assert "cache_tensor 1 " in run(*args, "--cache-implementation", "paged")[1]
