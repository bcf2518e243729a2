"""What nobody foresaw ends in three lines and exit code 2, never in a traceback."""

from __future__ import annotations

import pytest

from kvplan.cli import main, size


@pytest.fixture
def _broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVPLAN_DEBUG", raising=False)


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("x\nmore"), TypeError(), RecursionError("deep"), KeyError("x" * 999)],
)
def test_three_lines(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the kind of error, where in kvplan, and how to report it."""

    def breaks(values: object) -> int:
        raise error

    monkeypatch.setattr(size, "COMMAND", size.COMMAND._replace(run=breaks))
    code = main(["size", "llama3-8b"])
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 2
    assert len(err) < 500
    assert type(error).__name__ in err
    assert "__init__.py:" in err
    assert "report it" in err
    assert "Traceback" not in err


def test_debug_shows_the_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For the report."""

    def breaks(values: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setenv("KVPLAN_DEBUG", "1")
    monkeypatch.setattr(size, "COMMAND", size.COMMAND._replace(run=breaks))

    assert main(["size", "llama3-8b"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_memory_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Running out of memory is no mistake in kvplan."""

    def breaks(values: object) -> int:
        raise MemoryError

    monkeypatch.setattr(size, "COMMAND", size.COMMAND._replace(run=breaks))

    assert main(["size", "llama3-8b"]) == 2
    assert "ran out of memory" in capsys.readouterr().err
