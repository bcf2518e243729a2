"""Texts out of files: nothing in them reaches a terminal as a command, in any format."""

from __future__ import annotations

import json

import pytest

from kvplan.cli import main
from kvplan.printable import visible

# Clears the screen, turns what follows red (8-bit form), deletes, reverses the line's direction.
HOSTILE = "\x1b[2J\x9b31m\x7f\u202eend"
SPEC = """\
name: tiny
dtype: bfloat16
max_context: 100
layers: 2
attention: {kv_heads: 2, head_dim: 64}
unsupported_dtypes: {fp8: "\\e[2J\\x9b31m\\x7f\\u202eend"}
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, \u00e9, \u6a21\u578b", "plain, \u00e9, \u6a21\u578b"),
        ("two\nlines\tand\u00a0blanks\u3000", "two\nlines\tand\u00a0blanks\u3000"),
        (HOSTILE, r"\x1b[2J\x9b31m\x7f\u202eend"),
        ("\r\x00\x85\udcff", r"\r\x00\x85\udcff"),
    ],
)
def test_what_is_not_drawn_is_written_out(text, shown):
    """Blanks and line ends stay."""
    assert visible(text) == shown


@pytest.mark.parametrize("format_", ["table", "json", "csv", "md"])
def test_a_report_holds_no_sequence_out_of_a_file(capsys, tmp_path, format_):
    """The reason that a spec gives for a format stands in a warning."""
    (tmp_path / "tiny.yaml").write_text(SPEC)
    line = ["size", str(tmp_path / "tiny.yaml"), "--dtype", "fp8", "--format", format_]
    assert main(line) == 0
    out, err = capsys.readouterr()

    # CSV and Markdown name a warning by its id alone.
    assert "31m" in out or format_ in ("csv", "md")
    assert all(char.isprintable() or char == "\n" for char in out + err)
    if format_ == "json":
        assert HOSTILE in json.loads(out)["results"][0]["warnings"][0]["message"]


def test_an_error_holds_no_sequence_out_of_a_name(capsys, tmp_path):
    """Nor does a file that is called so make a line of its own."""
    assert main(["size", str(tmp_path / "a\n\x1b[2J.yaml")]) == 2

    assert capsys.readouterr().err == f"kvplan size: {tmp_path}/a\\n\\x1b[2J.yaml: does not exist\n"


def test_a_cell_is_no_formula(capsys, tmp_path):
    """A spreadsheet would run it; with an apostrophe before it, it is text."""
    (tmp_path / "tiny.yaml").write_text(SPEC.replace("name: tiny", 'name: "=cmd|calc!A1"'))
    assert main(["size", str(tmp_path / "tiny.yaml"), "--format", "csv"]) == 0

    assert capsys.readouterr().out.splitlines()[1].startswith("'=cmd|calc!A1,bfloat16,")
