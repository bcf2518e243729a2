"""Tables on a terminal: bars, colour, every width, and scripts wider than one column."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from kvplan.plan.explain import explain
from kvplan.plan.models import list_models
from kvplan.plan.size import size
from kvplan.report import as_table
from kvplan.report.page import open_console
from kvplan.report.tables import Column, print_table
from tests.report.conftest import hybrid

ROOT = Path(__file__).parents[2]
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    return _ESCAPE.sub("", text)


def pages(model):
    """Every table a person can ask for."""
    one = size(model, batch=2, ctx=9000)
    yield as_table.size([one], to_file=False, per_layer=True)
    yield as_table.size([one, size(model, dtype="q8_0")], to_file=False)
    yield as_table.explain(explain(one), to_file=False)
    yield as_table.models([model.spec], to_file=False)


def test_a_terminal_shows_the_share_of_each_kind_as_a_bar(model, terminal):
    """27.2 %, 72.6 % and 0.1 % of 20 cells; what is there at all has one."""
    terminal(120)
    lines = plain(as_table.size([size(model)], to_file=False)).splitlines()
    bars = {line.split()[0]: line.count("█") for line in lines if "█" in line}

    assert bars == {"sliding": 5, "full": 15, "gated_delta_net": 1}


def test_a_terminal_without_such_characters_gets_plain_ones(model, terminal):
    """An ASCII terminal."""
    terminal(120, encoding="ascii")
    text = plain(as_table.size([size(model)], to_file=False))

    assert "72.6%  " + "#" * 15 in text
    assert "█" not in text


def test_a_pipe_and_a_file_get_neither_bars_nor_colour(model, terminal):
    """Text that can be pasted."""
    piped = as_table.size([size(model, ctx=9000)], to_file=False)
    terminal(120)
    filed = as_table.size([size(model, ctx=9000)], to_file=True)

    assert "\x1b" not in piped
    assert "█" not in piped
    assert filed == piped


def test_a_terminal_shows_bold_totals_and_yellow_warnings(model, terminal):
    """The total is what the eye should find."""
    terminal(120)
    text = as_table.size([size(model, ctx=9000)], to_file=False)

    assert "\x1b[1m   47.22 MiB  logical" in text  # + 808 tokens x 4,096 B
    assert "\x1b[33mwarning: 9,000 tokens" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_wrapped_lines_hang_under_their_own_text(model, terminal, width):
    """A label's column stays empty below it, for formulas and warnings."""
    terminal(width)
    lines = plain(as_table.size([size(model, ctx=9000)], to_file=False)).splitlines()
    formula = next(i for i, line in enumerate(lines) if line.startswith("formula "))
    warning = next(i for i, line in enumerate(lines) if line.startswith("warning: "))

    assert {line[:16].strip() for line in lines[formula + 1 : warning - 1]} == {""}
    assert {line[:9].strip() for line in lines[warning + 1 :]} <= {""}
    assert warning - formula > 2
    assert all(len(line) > 16 for line in lines[formula + 1 : warning - 1])


def test_no_color_means_no_escape_codes_at_all(model, terminal, monkeypatch):
    """Bars stay: they are not colour."""
    terminal(120)
    monkeypatch.setenv("NO_COLOR", "1")
    for text in pages(model):
        assert "\x1b" not in text
    assert "█" in as_table.size([size(model)], to_file=False)


def test_a_dumb_terminal_gets_no_escape_codes(model, terminal, monkeypatch):
    """TERM=dumb cannot show them."""
    terminal(80)
    monkeypatch.setenv("TERM", "dumb")

    assert "\x1b" not in as_table.size([size(model)], to_file=False)


def test_force_color_reaches_a_pipe(model, monkeypatch):
    """As CI logs want it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    assert "\x1b[1m" in as_table.size([size(model)], to_file=False)


@pytest.mark.parametrize("width", range(40, 61, 2))
def test_no_line_is_wider_than_a_narrow_terminal(model, terminal, width):
    """Columns leave before a number breaks."""
    terminal(width)
    for text in pages(model):
        assert max(map(cell_len, plain(text).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 100, 120, 200])
def test_no_number_is_broken(model, terminal, width):
    """At any width, the figures that stay are whole."""
    terminal(width)
    one, several, page, listed = (plain(text) for text in pages(model))

    assert "12.00 MiB" in one
    assert "18,432,000" in one  # 9,000 x 2 x 4 x 128 x 2 B
    assert "90.69 MiB" in several or "94.44 MiB" in several  # 2 x (46,205,952 + 808 x 4,096) B
    assert "2,865,409,024" in page
    assert "hybrid-9b" in listed


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (
            41,
            [
                "                              per",
                "kind             layers   sequence  share",
                "sliding               6  12.00 MiB  27.2%",
                "full                  2  32.00 MiB  72.6%",
                "gated_delta_net       1  67.00 KiB   0.1%",
            ],
        ),
        (
            40,
            [
                "kind             layers  per sequence",
                "sliding               6     12.00 MiB",
                "full                  2     32.00 MiB",
                "gated_delta_net       1     67.00 KiB",
            ],
        ),
    ],
)
def test_a_narrow_table_keeps_what_matters(model, terminal, width, rows):
    """Kinds, layers and bytes stay; entries, bars and shares leave."""
    terminal(width)
    text = plain(as_table.size([size(model)], to_file=False))

    assert "\n".join(rows) in "\n".join(line.rstrip() for line in text.splitlines())


def test_names_in_wide_scripts_stay_aligned(terminal):
    """Each of these characters takes two cells."""
    terminal(100)
    results = [size(hybrid(name)) for name in ("模型-九", "ハイブリッド", "hybrid", "é-model")]
    lines = plain(as_table.size(results, to_file=False)).splitlines()
    ends = {cell_len(line[: line.index("44.07 MiB")]) for line in lines[1:5]}
    wide = [line for line in lines if "44.07 MiB" in line]

    assert len(wide) == 4
    assert len(ends) == 1


def table(*columns: Column, rows) -> list[str]:
    console = open_console(to_file=False)
    print_table(console, columns, rows)
    return [line.rstrip() for line in plain(console.text()).splitlines()]


COLUMNS = (Column("name"), Column("many words", "right", rank=2), Column("size", "right", rank=1))
ROWS = [["a-long-name-that-stays-whole", "1,024", "7"], ["b", "2", "1,000,000"]]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            60,
            [
                "name                          many words       size",
                "a-long-name-that-stays-whole       1,024          7",
                "b                                      2  1,000,000",
            ],
        ),
        (
            46,
            [
                "                               many",
                "name                          words       size",
                "a-long-name-that-stays-whole  1,024          7",
                "b                                 2  1,000,000",
            ],
        ),
        (
            45,
            [
                "name                               size",
                "a-long-name-that-stays-whole          7",
                "b                             1,000,000",
            ],
        ),
    ],
)
def test_headings_wrap_first_then_columns_leave(width, lines, terminal):
    """28 + 10 + 9 cells and two gaps take 51; with the heading wrapped 46; then rank 2 leaves."""
    terminal(width)
    assert table(*COLUMNS, rows=ROWS) == lines


def test_a_table_that_cannot_fit_still_shows_everything(terminal):
    """Cells break when nothing else can give way."""
    terminal(40)
    lines = table(*COLUMNS, rows=[["x" * 50, "1,024", "7"]])

    assert "".join(line.split()[0] for line in lines[1:]) == "x" * 50


@pytest.mark.parametrize("columns", [None, "40"])
@pytest.mark.parametrize("force_color", [None, "1"])
def test_a_pipe_loses_no_column_and_breaks_no_cell(columns, force_color, monkeypatch):
    """What a script looks for is there, whatever the width that COLUMNS or a default gives."""
    for name, value in (("COLUMNS", columns), ("FORCE_COLOR", force_color)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    rows = [["x" * 150, "1,024", "7"]]

    assert table(*COLUMNS, rows=rows)[-1].split() == rows[0]


def test_a_piped_list_can_be_searched():
    """Each of the catalogue's Hugging Face ids stands on a line of its own, whole."""
    found = list_models(search="meta-llama/", specs=[])
    lines = as_table.models(found, to_file=False).splitlines()

    assert len(found) > 10
    for spec in found:
        (line,) = [line for line in lines if line.split()[:1] == [spec.name]]
        assert line.split()[-1] == spec.hf_ids[0]


def test_a_real_terminal_gets_bars(tmp_path):
    """The whole command on a pseudo-terminal of 80 columns."""
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "kvplan", "size", "llama3-8b", "--ctx", "8k"],
        stdout=side,
        stdin=side,
        cwd=ROOT,
        env=env,
    ) as process:
        os.close(side)
        chunks = []
        try:
            while chunk := os.read(main, 65536):
                chunks.append(chunk)
        except OSError:  # the other side was closed
            pass
    os.close(main)
    text = b"".join(chunks).decode()

    assert process.returncode == 0
    assert "█" in text
    assert max(map(len, plain(text).splitlines())) <= 80
