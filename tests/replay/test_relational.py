"""Traces that DuckDB filters and sorts before they are replayed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvplan.errors import InputError, UsageError
from kvplan.replay.relational import arranged
from kvplan.replay.traces import Trace

CSV = "t_ms,prompt_tokens,output_tokens,tenant\n900,30,3,a\n20,10,1,b\n100,20,2,a\n"
JSONL = (
    '{"timestamp": 30, "input_length": 9, "output_length": 2, "hash_ids": [1, 2]}\n'
    '{"timestamp": 4, "input_length": 8, "output_length": 1, "hash_ids": [1]}\n'
)


def rows(path: str) -> list[tuple[float, int, int]]:
    """Time after the first, prompt and output of each request."""
    return [(row.t_ms, row.prompt, row.output) for row in Trace(path).rows()]


def test_a_csv_is_sorted_by_its_time_as_numbers(tmp_path: Path) -> None:
    """20, 100, 900: as texts 100 would come first."""
    pytest.importorskip("duckdb", reason="needs kvplan[traces]")
    trace = tmp_path / "it's.csv"
    trace.write_text(CSV)

    new = arranged(str(trace), where=None, by_time=True, columns={})

    assert rows(new) == [(0, 10, 1), (80, 20, 2), (880, 30, 3)]


def test_a_condition_keeps_its_rows(tmp_path: Path) -> None:
    """One tenant's requests, in order of time."""
    pytest.importorskip("duckdb", reason="needs kvplan[traces]")
    trace = tmp_path / "trace.csv"
    trace.write_text(CSV)

    new = arranged(str(trace), where="tenant = 'a'", by_time=True, columns={"t_ms": "t_ms"})

    assert rows(new) == [(0, 20, 2), (800, 30, 3)]


def test_jsonl_keeps_its_texts(tmp_path: Path) -> None:
    """Ids of a text stay a list."""
    pytest.importorskip("duckdb", reason="needs kvplan[traces]")
    trace = tmp_path / "trace.jsonl"
    trace.write_text(JSONL)

    new = arranged(str(trace), where=None, by_time=True, columns={})

    assert rows(new) == [(0, 8, 1), (26, 9, 2)]
    assert [tuple(row.ids) for row in Trace(new).rows()] == [(1,), (1, 2)]


@pytest.mark.parametrize("where", ["no_such_column > 1", "(", "1 = 1; DROP TABLE x"])
def test_a_condition_that_is_none(tmp_path: Path, where: str) -> None:
    """DuckDB's own reason, at the file."""
    pytest.importorskip("duckdb", reason="needs kvplan[traces]")
    trace = tmp_path / "trace.csv"
    trace.write_text(CSV)

    with pytest.raises(InputError, match="DuckDB cannot arrange it"):
        arranged(str(trace), where=where, by_time=False, columns={})


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command that installs it; standard input cannot be sorted."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match="DuckDB") as caught:
        arranged(str(tmp_path / "x.csv"), where=None, by_time=True, columns={})
    assert caught.value.hint == 'pip install "kvplan[traces]"'
    with pytest.raises(UsageError, match="standard input"):
        arranged("-", where=None, by_time=True, columns={})
