"""`kvplan replay` from the command line: what it prints, and what it says about bad traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main

MODEL = ("--model", "llama3-8b", "--num-blocks", "400")


def replay(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    code = main(["replay", *args])
    out, err = capsys.readouterr()
    return code, out, err


def replayed(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """The JSON report of a run that ends well."""
    code, out, err = replay(capsys, *args, "--json")

    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def trace(folder: Path, text: str) -> str:
    """A file with a trace."""
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_two_requests_by_hand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A prompt of 20 tokens and 3 of output: computed in steps 0, 1 and 2, in 2 blocks of 16.

    The second comes at 90 ms, step 3 of 30 ms, and is alone too.
    """
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n0,20,3\n90,20,3\n")

    found = replayed(capsys, path, *MODEL, "--step-ms", "30")

    assert found["schema"] == "kvplan.replay/1"
    assert found["pool"]["usable_blocks"] == 399
    assert found["line"] == [
        [0, 1, 0, 2, 20], [1, 1, 0, 2, 1], [2, 1, 0, 2, 1],
        [3, 2, 0, 4, 20], [4, 1, 0, 2, 1], [5, 1, 0, 2, 1],
    ]  # fmt: skip
    # Step 3: the first one's last token was sampled in step 2, and its blocks go one step later.
    totals = found["totals"]
    assert (totals["requests"], totals["steps"], totals["peak_running"]) == (2, 6, 2)
    assert (totals["prompt_tokens"], totals["decode_tokens"]) == (40, 4)
    assert found["finish_step"]["max"] == 5


def test_shared_text_is_found_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The second of two equal prompts of 1,024 tokens recomputes its last block of 16."""
    path = trace(
        tmp_path,
        't_ms,prompt_tokens,output_tokens,hash_ids\n0,1024,1,"7,8"\n900,1024,1,"7,8"\n',
    )

    found = replayed(capsys, path, *MODEL, "--step-ms", "30")

    assert found["prefix"] == {"queries": 2048, "hits": 1008, "preempted_hits": 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t_ms,prompt_tokens,output_tokens\n0,20,3\n1,-5,3\n", "trace.csv:3: -5 is not a number"),
        ("t_ms,prompt_tokens,output_tokens\n9,20,3\n1,20,3\n", "8 ms earlier"),
        ("t_ms,prompt_tokens\n0,20\n", "trace.csv:1: no column says output_tokens"),
        ("prompt_tokens,output_tokens\n20,3\n", "no column says t_ms"),
        ("t_ms,prompt_tokens,output_tokens\n0,20\n", "trace.csv:2: has 2 columns, the header 3"),
        ("t_ms,prompt_tokens,output_tokens\nx,20,3\n", "trace.csv:2:"),
        ('{"t_ms": 0, "prompt_tokens": 20, "output_tokens": 3}\n{\n', "trace.csv:2: is not JSON"),
        ("", "the trace is empty"),
    ],
)
def test_a_broken_trace_is_said_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """Exit code 2, and nothing on standard output."""
    code, out, err = replay(capsys, trace(tmp_path, text), *MODEL, "--step-ms", "30")

    assert (code, out) == (2, "")
    assert said in err


def test_partial_results_only_where_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With --partial a broken line ends the trace: one request ran, and the report says why."""
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n0,20,3\n1,20\n")

    found = replayed(capsys, path, *MODEL, "--step-ms", "30", "--partial")

    assert found["totals"]["requests"] == 1
    assert "trace.csv:3" in found["partial"]


def test_a_request_larger_than_the_pool_waits_for_ever(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """399 blocks hold 6,384 tokens: exit code 1, and the report names the request."""
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n0,6400,3\n1,20,3\n")

    code, out, _ = replay(capsys, path, *MODEL, "--step-ms", "30", "--json")

    assert code == 1
    assert json.loads(out)["stuck"] == 0


def test_requests_longer_than_the_model_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """8,190 + 3 tokens are more than the model's 8,192, as the engine would say."""
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n0,8190,3\n1,20,3\n")

    found = replayed(capsys, path, *MODEL, "--step-ms", "30")

    assert (found["left_out"], found["totals"]["requests"]) == (1, 1)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--engine-args", "--scheduling-policy priority"), "policy 'priority'"),
        (("--engine-args", "--speculative-config '{\"method\": \"ngram\","
          " \"num_speculative_tokens\": 2}'"), "speculative decoding"),
        (("--engine-args", "-pp 2"), "pipeline parallelism"),
        (("--engine", "vllm@0.10.0"), "from 0.19 on"),
        (("--generate", "n=-5"), "--generate n"),
        (("--generate", "gap_ms=nan"), "is not a number"),
        (("--engine", "transformers"), "not of 'transformers'"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    """Exit code 2."""
    code, _, err = replay(capsys, "uniform", *MODEL, "--step-ms", "30", *args)

    assert code == 2
    assert said in err


def test_parts_put_together_are_the_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Requests that are far apart: nobody is under way at the cut."""
    lines = [f"{1000 * i},{50 + i},5" for i in range(20)]
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n" + "\n".join(lines) + "\n")
    args = (path, *MODEL, "--step-ms", "30")
    parts = []
    for part in (1, 2, 3):
        out = tmp_path / f"{part}.json"
        assert main(["replay", *args, "--shard", f"{part}/3", "--json", "-o", str(out)]) == 0
        parts += ["--merge", str(out)]

    whole, merged = replayed(capsys, *args), replayed(capsys, *parts)

    for name in ("totals", "prefix", "occupancy", "wait_steps", "finish_step", "last_step"):
        assert merged[name] == whole[name]
    assert merged["step_sha"] is None


def test_the_picture_is_the_same_twice(tmp_path: Path) -> None:
    """An SVG without a claim about seconds."""
    args = ["replay", "chat", *MODEL, "--step-ms", "30", "--generate", "n=30,sessions=10"]
    texts = []
    for name in ("a.svg", "b.svg"):
        assert main([*args, "--plot", str(tmp_path / name), "-o", str(tmp_path / "x.json")]) == 0
        texts.append((tmp_path / name).read_text(encoding="utf-8"))

    assert texts[0] == texts[1]
    assert texts[0].startswith("<svg")
    assert "blocks used" in texts[0]


def test_other_pools_and_options_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """The same rows in one process and in two; the largest pool tried preempts nobody."""
    args = ("uniform", *MODEL, "--step-ms", "30", "--generate", "n=60,gap_ms=50,seed=4")
    more = ("--scan", "200,400,5000", "--what-if")

    one = replayed(capsys, *args, *more)
    two = replayed(capsys, *args, *more, "--processes", "2")

    assert one == two
    assert [row["num_blocks"] for row in one["scan"]] == [200, 400, 5000]
    assert one["scan"][0]["preemptions"] > 0
    assert one["scan"][2]["preemptions"] == 0
    assert one["no_preemption_from"] == 5000
    options = [row["option"] for row in one["what_if"]]
    assert options[0] == "as asked"
    assert "--kv-cache-dtype fp8" in options


def test_a_pool_of_the_size_that_was_needed_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """What an ample pool reports as smallest gives the same steps."""
    args = ("uniform", "--model", "llama3-8b", "--step-ms", "30", "--generate", "n=40,gap_ms=50")
    widest = replayed(capsys, *args, "--num-blocks", "20000")
    smallest = str(widest["smallest_pool_unchanged"])

    found = replayed(capsys, *args, "--num-blocks", smallest)

    assert found["step_sha"] == widest["step_sha"]
    assert found["smallest_pool_unchanged"] == widest["smallest_pool_unchanged"]


def test_rows_of_single_requests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A row per request, as it ends."""
    path = trace(tmp_path, "t_ms,prompt_tokens,output_tokens\n0,20,3\n90,20,3\n")
    rows = tmp_path / "rows.csv"

    replayed(capsys, path, *MODEL, "--step-ms", "30", "--per-request", str(rows))

    assert rows.read_text(encoding="utf-8").splitlines()[1:] == [
        "0,0,0,0,2,0,20,3",
        "1,3,3,3,5,0,20,3",
    ]


def test_a_device_gives_the_pool_that_fit_stands_on(capsys: pytest.CaptureFixture[str]) -> None:
    """What an L4 leaves at least, in blocks of 16 tokens x 131,072 bytes; the most is said."""
    line = ["llama3.1-8b", "--gpu", "l4", "--ctx", "8192", "--json"]
    main(["fit", *line, "--engine", "vllm"])
    fitted = json.loads(capsys.readouterr().out)
    asked = ["replay", "uniform", "--model", *line, "--step-ms", "30", "--generate", "n=3,seed=1"]
    assert main(asked) == 0
    replayed = json.loads(capsys.readouterr().out)

    blocks = fitted["available_low"] // (16 * 131_072)
    assert replayed["pool"]["num_blocks"] == blocks == fitted["engine"]["num_blocks"]
    assert [warning["id"] for warning in replayed["warnings"]] == ["pool-from-budget"]


def test_a_pool_needs_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    """A device, bytes or blocks."""
    assert main(["replay", "uniform", "--model", "llama3.1-8b", "--step-ms", "30"]) == 2
    assert "--gpu, --available-memory" in capsys.readouterr().err
