"""Published traces and plain ones, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.errors import InputError
from kvplan.replay.request import Row
from kvplan.replay.traces import Trace


def rows(folder: Path, text: str, **options: object) -> list[Row]:
    """The requests of a trace."""
    path = folder / "trace"
    path.write_text(text, encoding="utf-8")
    return list(Trace(str(path), **options).rows())  # type: ignore[arg-type]


def test_azure(tmp_path: Path) -> None:
    """Dates to the microsecond: 4.314579 s after the first, over midnight 10 s."""
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 23:59:46.6805900,374,44\n"
        "2023-11-16 23:59:50.9951690,396,109\n"
        "2023-11-17 00:00:56.6805900,1,0\n"
    )

    found = rows(tmp_path, text)

    assert found[0] == Row(0.0, 374, 44)
    assert found[1].t_ms == pytest.approx(4314.579)
    assert found[2].t_ms == pytest.approx(70_000)
    assert found[2].output == 1  # none at all is one


def test_mooncake(tmp_path: Path) -> None:
    """JSON lines, and the same as a table with ranges of ids."""
    lines = (
        '{"timestamp": 7, "input_length": 1024, "output_length": 5, "hash_ids": [0, 1]}\n'
        '{"timestamp": 9, "input_length": 1600, "output_length": 6, "hash_ids": [0, 2, 3, 4]}\n'
    )
    table = (
        "timestamp_ms\tinput_length\toutput_length\thash_ids\n7\t1024\t5\t0-1\n9\t1600\t6\t0,2-4\n"
    )
    wanted = [Row(0, 1024, 5, [0, 1]), Row(2, 1600, 6, [0, 2, 3, 4])]

    assert rows(tmp_path, lines) == wanted
    assert rows(tmp_path, table) == wanted


def test_named_columns_and_parts(tmp_path: Path) -> None:
    """Columns of any name; rows 1 and 2 begin their own clock."""
    text = "when;in;out\n5;1;2\n10;3;4\n30;5;6\n"
    text = text.replace(";", ",")
    columns = {"t_ms": "when", "prompt_tokens": "in", "output_tokens": "out"}

    found = rows(tmp_path, text, columns=columns, rows=(1, 3))

    assert found == [Row(0, 3, 4), Row(20, 5, 6)]


def test_an_endless_line_ends_the_reading(tmp_path: Path) -> None:
    """More than 8 MiB without an end of line is no trace."""
    text = "t_ms,prompt_tokens,output_tokens\n" + "1" * (8 * 2**20 + 1)

    with pytest.raises(InputError, match="the line has more than"):
        rows(tmp_path, text)


def test_a_range_that_would_fill_the_memory_is_none(tmp_path: Path) -> None:
    """A billion ids in nine characters."""
    text = 't_ms,prompt_tokens,output_tokens,hash_ids\n0,1,1,"0-999999999"\n'

    with pytest.raises(InputError, match="is not a range"):
        rows(tmp_path, text)
