"""`kvplan check --facts`: the contract's JSON, a readable text, and hostile files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.deployments.facts import FACTS

FIXTURES = Path(__file__).parents[1] / "deployments" / "fixtures"


def facts(capsys: pytest.CaptureFixture[str], *paths: str) -> dict[str, Any]:
    assert main(["check", *paths, "--facts", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_has_every_fact_of_every_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """kvplan.check/1: value, line, column, status and origin."""
    found = facts(capsys, str(FIXTURES / "kubernetes.yaml"))

    assert found["schema"] == "kvplan.check/1"
    ((deployment,),) = [file["deployments"] for file in found["files"]]
    assert tuple(deployment["facts"]) == FACTS
    assert deployment["facts"]["tp"] == {
        "value": 2, "line": 32, "column": 38, "status": "literal", "origin": "-tp",
    }  # fmt: skip
    assert deployment["facts"]["pp"]["status"] == "absent"


def test_the_text_names_values_and_places(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not known has a question mark, and no secret is shown."""
    assert main(["check", str(FIXTURES / "kubernetes.yaml"), "--facts"]) == 0
    text = capsys.readouterr().out

    assert "org/chat-7b" in text
    assert "not defined here" in text
    assert "secret" not in text
    assert text.endswith("1 engine in 1 file\n")


def test_standard_input_is_a_stream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called and read as --stdin-filename says."""
    data = (FIXTURES / "job.slurm").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert main(["check", "-", "--facts", "--json", "--stdin-filename", "a.slurm"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["path"] == "a.slurm"
    assert len(file["deployments"]) == 1


def test_judging_is_not_pretended(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --facts the command says what it can do."""
    assert main(["check", str(FIXTURES)]) == 2
    assert "--facts" in capsys.readouterr().err


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "content",
    [
        (BOMB + "vllm: *i\n").encode(),
        b"vllm: " + b"[" * 200,
        b"vllm: \xff\xfe",
        b"vllm:\0",
        b"services: {vllm: {image: vllm, command: '" + b"$(" * 5000 + b"'}}",
        b'services:\n  vllm:\n    image: vllm/vllm-openai:v1\n    command: "--model \'"\n',
        b"vllm: {{\n\t- x",
        b'#!/bin/bash\nA=(vllm serve)\nA=("${A[@]}")\n"${A[@]}"\n',
        b"#!/bin/bash\nA=(vllm a a a)\n"
        + b'A=("${A[@]}" "${A[@]}")\n' * 40
        + b'vllm serve "${A[@]}"\n',
        b"#!/bin/bash\nA='-a -b'\n" + b'A="$A $A"\n' * 40 + b"vllm serve $A\n",
        b"",
    ],
    ids=[
        "bomb",
        "deep",
        "not-utf8",
        "nul",
        "nested",
        "open-quote",
        "tabs",
        "array-of-itself",
        "arrays",
        "words",
        "empty",
    ],
)
def test_hostile_files_are_answered(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 and valid JSON, whatever is in the file."""
    path = tmp_path / "x.yaml"
    path.write_bytes(content)

    (file,) = facts(capsys, str(path))["files"]
    assert file["path"].endswith("x.yaml")


def test_what_a_terminal_obeys_is_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and values out of a file move no cursor and begin no line."""
    path = tmp_path / "x.yaml"
    path.write_text(
        'services: {"a\\e[2J\\n::error::x": {image: vllm/vllm-openai,'
        ' command: ["--model", "https://user:pw@host/m\\e[31m"]}}\n'
    )

    assert main(["check", str(path), "--facts"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert not any(line.startswith("::error") for line in text.splitlines())
    assert "user:pw" not in text
