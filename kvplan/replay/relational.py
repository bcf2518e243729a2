"""A trace filtered and put in order of time by DuckDB, which spills to disk where memory ends.

The trace comes out in the form that it had, CSV with a header or JSONL, in a folder that goes away
with the process. CSV is taken as texts, so that no time or id is rounded. DuckDB is an extra
(`kvplan[traces]`) and is loaded only here.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvplan.errors import InputError, UsageError
from kvplan.replay.traces import TIME_COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_JSON = (".jsonl", ".ndjson", ".json")


def arranged(path: str, *, where: str | None, by_time: bool, columns: Mapping[str, str]) -> str:
    """The path of a new trace: the rows for which `where` holds, by time where that is asked.

    Args:
        path: of the trace; standard input has none.
        where: a condition in DuckDB's SQL over the trace's columns.
        by_time: order the rows by their time.
        columns: role -> column, where they are named.

    Raises:
        UsageError: DuckDB is not installed, or the trace is standard input.
        InputError: DuckDB cannot read the trace, or does not take the condition.
    """
    if path == "-":
        raise UsageError("--where and --sort need a file, not standard input")
    try:
        import duckdb
    except ImportError:
        raise UsageError(
            "--where and --sort need DuckDB", hint='pip install "kvplan[traces]"'
        ) from None
    as_json = path.lower().endswith(_JSON)
    folder = tempfile.TemporaryDirectory(prefix="kvplan-trace-")
    atexit.register(folder.cleanup)
    target = os.path.join(folder.name, "trace.jsonl" if as_json else "trace.csv")
    source = (
        f"read_json({_text(path)}, format='newline_delimited')"
        if as_json
        else f"read_csv({_text(path)}, header=true, all_varchar=true)"
    )
    try:
        with duckdb.connect() as database:
            order = _order(database, source, columns) if by_time else ""
            kept = f" WHERE {where}" if where else ""
            form = "FORMAT json" if as_json else "FORMAT csv, HEADER"
            database.execute(
                f"COPY (SELECT * FROM {source}{kept}{order}) TO {_text(target)} ({form})"
            )
    except duckdb.Error as error:
        said = str(error).strip().splitlines()[0]
        raise InputError(f"DuckDB cannot arrange it: {said}", where=path) from None
    return target


def _order(database: DuckDBPyConnection, source: str, columns: Mapping[str, str]) -> str:
    """The clause that sorts by the column of times: as numbers, else as dates."""
    names = [row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
    named = columns.get("t_ms")
    time = named or next((name for name in TIME_COLUMNS if name in names), None)
    if time is None:
        raise UsageError("the trace has no column of times", hint="name it: --columns t_ms=NAME")
    column = '"' + time.replace('"', '""') + '"'
    text = f"CAST({column} AS VARCHAR)"
    return f" ORDER BY TRY_CAST({text} AS DOUBLE), TRY_CAST({text} AS TIMESTAMP), {text}"


def _text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"
