"""`kvplan verify` on the command line: exit codes, options, and torch only where it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    code = main(["verify", *args])
    out, err = capsys.readouterr()

    assert code == 2
    assert out == ""
    assert 1 <= len(err.splitlines()) <= 3
    return err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident bytes")
def test_agreement(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, and the checks that the contract names."""
    pytest.importorskip("torch")

    assert main(["verify", "llama3-8b", "--device", "cpu", "--ctx", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [check["name"] for check in found["checks"]]
    assert found["ok"] is True
    assert {"tensor_bytes", "resident_bytes"} <= set(names)
    # 64 tokens x 131,072 bytes
    assert found["checks"][0]["measured"] == 64 * 131_072


def test_disagreement(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1 when a check fails: here the kernel is made to report one page more."""
    pytest.importorskip("torch")
    from kvplan.verify.devices import cpu

    monkeypatch.setattr(cpu, "held_in", lambda ranges: 64 * 131_072 + 4096)

    assert main(["verify", "llama3-8b", "--device", "cpu", "--ctx", "64"]) == 1
    assert "does not agree" in capsys.readouterr().out


def test_torch_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and how to install it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    err = refused(capsys, "llama3-8b", "--device", "cpu", "--ctx", "64")

    assert "torch" in err
    assert "pip install torch" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "which MODEL?"),
        (("llama3-8b", "--dtype", "bf16,fp8"), "one --dtype"),
        (("llama3-8b", "--fraction", "0"), "--fraction"),
        (("llama3-8b", "--fraction", "two"), "--fraction"),
        (("llama3-8b", "--max-bytes", "2G"), "--max-bytes"),
        (("llama3-8b", "--margin", "-1"), "--margin"),
        (("no-such-model-at-all",), "no-such-model-at-all"),
        (("llama3-8b", "--device", "tpu", "--ctx", "1"), "tpu"),
        (("llama3-8b", "--format", "yaml"), "yaml"),
        (("llama3-8b", "--engine", "logical@1", "--ctx", "1"), "logical"),
    ],
)
def test_what_cannot_run(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    """Exit 2 with a short error."""
    pytest.importorskip("torch")
    assert message in refused(capsys, *args)


def test_an_interrupt_says_that_all_is_freed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130, as shells expect."""
    pytest.importorskip("torch")
    from kvplan.verify.devices import cpu

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cpu, "held_in", interrupt)

    assert main(["verify", "llama3-8b", "--device", "cpu", "--ctx", "4"]) == 130
    assert "interrupted; everything allocated was freed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [["--help"], ["verify", "--help"], ["size", "llama3-8b"], ["models"], ["explain", "llama3-8b"],
     ["fit", "llama3-8b", "--available-memory", "8GiB"],
     ["size", "llama3-8b", "--engine", "vllm", "--allocator"]],
    ids=" ".join,
)  # fmt: skip
def test_torch_stays_out(line: list[str]) -> None:
    """Nothing but the measurement itself imports it."""
    code = (
        "import sys\nfrom kvplan.cli import main\n"
        f"main({line!r})\nassert 'torch' not in sys.modules, 'torch'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
