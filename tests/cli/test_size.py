"""`kvplan size`, `explain`, `models` and `schema` as scripts use them."""

from __future__ import annotations

import json

import pytest

from kvplan.cli import main

SPEC = """\
name: tiny
dtype: bfloat16
max_context: 100
layers: 2
attention: {kv_heads: 2, head_dim: 64}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """2 layers x 2 x 2 x 64 x 2 B = 1,024 bytes a token."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPEC)
    return "tiny.yaml"


def found(capsys, *args: str) -> dict:
    assert main([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def sizes(capsys, *args: str) -> list[tuple[str, int]]:
    results = found(capsys, "size", *args)["results"]
    return [(r["request"]["dtype"], r["logical"]["bytes"]) for r in results]


@pytest.mark.parametrize(
    ("args", "size"),
    [
        ([], 102400),
        (["--ctx", "1k"], 1048576),
        (["--ctx", "1k", "--batch", "3"], 3145728),
        (["--ctx", "50", "--ctx", "10"], 10240),  # the last counts
        (["--dtype", "fp8"], 51200),
        (["--dtype-k", "fp8"], 76800),  # half of half
        (["--tp", "2"], 102400),  # the whole model, unsharded
    ],
)
def test_a_size(capsys, tiny, args, size):
    """The request's part in the figure."""
    assert sizes(capsys, tiny, *args)[0][1] == size


def test_formats_side_by_side_stand_in_their_order(capsys, tiny):
    """One result each; two spellings of one format are one."""
    assert sizes(capsys, tiny, "--dtype", "fp8, bf16,bfloat16,float32") == [
        ("fp8_e4m3", 51200),
        ("bfloat16", 102400),
        ("float32", 204800),
    ]


def test_spellings_that_an_engine_stores_apart_stand_apart(capsys):
    """DeepSeek-V3.2 on Hopper, 64 + 1 blocks of 61 layers x 64 rows with 132 bytes of indexer.

    vLLM's fp8 has rows of 656 bytes (190.70 MiB), its fp8_e4m3 of 576 (171.34 MiB).
    """
    line = ["size", "deepseek-v3.2", "--engine", "vllm", "--dtype"]
    assert main([*line, "fp8,fp8_e4m3,FP8", "--ctx", "4096"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert [(row[1], row[6]) for row in rows if row[:1] == ["deepseek-v3.2"]] == [
        ("fp8", "190.70"),
        ("fp8_e4m3", "171.34"),
    ]


def test_k_and_v_apart(capsys, tiny):
    """100 tokens x 2 layers x (4 blocks x 34 + 4 blocks x 18)."""
    assert sizes(capsys, tiny, "--dtype-k", "q8_0", "--dtype-v", "q4_0") == [("q8_0/q4_0", 41600)]


def test_models_side_by_side_stand_in_their_order(capsys, tiny):
    """A model may stand twice."""
    results = found(capsys, "size", tiny, "llama3-8b", tiny, "--ctx", "1")["results"]

    assert [r["logical"]["bytes"] for r in results] == [1024, 131072, 1024]


def test_a_warning_is_no_failure(capsys, tiny):
    """Exit code 0, the warning in the report, nothing on stderr."""
    (result,) = found(capsys, "size", tiny, "--ctx", "101")["results"]

    assert [w["id"] for w in result["warnings"]] == ["ctx-above-maximum"]


def test_explain_takes_a_list_of_lengths(capsys, tiny):
    """Each as exactly as the default ones."""
    facts = found(capsys, "explain", tiny, "--tokens", "128,1k")

    assert [(g["tokens"], g["ratio"]) for g in facts["generation"]] == [(128, 85.67), (1024, 683.0)]


def test_a_list_without_a_match_is_a_negative_answer(capsys):
    """Exit code 1, and still one JSON object."""
    assert main(["models", "--search", "no such text anywhere", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"schema": "kvplan.models/1", "models": []}


def test_a_model_of_the_list_is_shown_with_its_source(capsys):
    """As YAML, which can be read again."""
    assert main(["models", "llama3-8b"]) == 0
    out = capsys.readouterr().out

    assert "\nname: llama3-8b\n" in out
    assert "\nsource: " in out


def test_the_schema_is_json(capsys):
    """For editors."""
    assert main(["schema", "spec"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "kvplan model spec"


def test_users_specs_are_found_by_name(capsys, tiny, tmp_path):
    """--specs, several times."""
    assert sizes(capsys, "tiny", "--specs", ".", "--specs", str(tmp_path))[0][1] == 102400


def test_the_version_and_the_help(capsys):
    """On standard output, exit code 0."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kvplan ")
    for command in ([], ["size"], ["explain"], ["models"], ["schema"]):
        assert main([*command, "--help"]) == 0
        assert capsys.readouterr().out.startswith("Usage: kvplan")
