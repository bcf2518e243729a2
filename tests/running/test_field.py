"""Published start-up figures of vLLM, of versions 0.2 to 0.29, rebuilt from specs and flags.

Each case is written as the log lines its version prints, and the command reads them. A case either
agrees within the printed rounding, or disagrees with the stated cause, or says what it lacks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from tests.running.field_logs import arguments_of, load_cases, log_of

CASES = load_cases()


def _run(case: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    log = folder / "engine.log"
    log.write_text(log_of(case), encoding="utf-8")
    code = main(arguments_of(case, log))
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Agreement to the printed digit, a named cause, or a case that lacks something."""
    if not log_of(case):
        assert case["lacks"]
        return
    code, answer, _ = _run(case, tmp_path, capsys)
    if "lacks" in case:
        assert code in (1, 2)
    elif "cause" in case:
        assert code == 1
        failed = [check for check in answer["checks"] if check["ok"] is False]
        assert failed
        assert case["cause"] in failed[0]["why"]
    else:
        assert code == 0, answer
        assert answer["ok"] is True


def test_how_many_are_rebuilt() -> None:
    """70 of the 85 published cases are rebuilt; the others say what they lack."""
    assert len(CASES) == 85
    assert sum("lacks" not in case for case in CASES) == 70


def _case(number: str) -> dict[str, Any]:
    return next(case for case in CASES if case["id"] == number)


@pytest.mark.parametrize(
    ("number", "change"),
    [
        ("K031", {"args": "-tp 2"}),  # one rank
        ("K031", {"args": "--kv-cache-dtype fp8"}),  # 16 bit
        ("K005", {"args": ""}),  # fp8
        ("K066", {"args": "-tp 8", "model": "meta-llama/Llama-3.1-70B-Instruct"}),  # a latent
        ("K077", {"args": "--disable-hybrid-kv-cache-manager"}),  # windows are freed
        ("K101", {"args": "--enable-prefix-caching"}),  # off before 0.28
        ("K024", {"model": "meta-llama/Llama-3.2-3B-Instruct"}),  # 1B
        ("K101", {"version": "0.22.0"}),  # the line's old definition
        ("K012", {"args": "-tp 8"}),  # four ranks
    ],
)
def test_a_wrong_setting_disagrees(
    number: str, change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same figures under a wrong rank count, format, model, flag or version do not agree."""
    code, answer, _ = _run(_case(number) | change, tmp_path, capsys)
    assert code == 1
    assert False in [check["ok"] for check in answer["checks"]]
