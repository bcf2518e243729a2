"""The quick parser: what it understands, typer understands in the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.cli import explain, models, schema, size
from kvplan.cli.app import build, run
from kvplan.cli.options import Argument, Command, Option
from kvplan.cli.quick import parse

TINY = Command(
    "tiny",
    "A command with one option of each kind.",
    lambda values: 0,
    Argument("names", "names", "NAME", many=True),
    (
        Option("ctx", "a value", "N"),
        Option("batch", "a value with a default", "N", "1"),
        Option("json", "a flag"),
        Option("output", "two spellings", "FILE", flags=("--output", "-o")),
        Option("specs", "several times", "DIR", many=True),
    ),
)
ONE = TINY._replace(argument=Argument("name", "a name", "NAME"))
NONE = TINY._replace(argument=None)
PERHAPS = TINY._replace(argument=Argument("name", "a name", "NAME", required=False))


def by_typer(command: Command, args: list[str]):
    """The values typer makes of a line, None when it refuses it."""
    seen = []

    def note(command, values):
        seen.append(values)
        return 0

    other = command._replace(name="other")
    run(build([command, other], "about", note), [command.name, *args])
    return seen[0] if seen else None


def test_a_line_becomes_values_by_name():
    """Absent options have their default, given ones their text."""
    assert parse(TINY, ["a", "--ctx", "8k", "--json", "b", "--specs", "x", "--specs=y"]) == {
        "names": ["a", "b"],
        "ctx": "8k",
        "batch": "1",
        "json": True,
        "output": None,
        "specs": ["x", "y"],
    }


def test_the_last_of_a_repeated_option_counts():
    """As everywhere on a command line."""
    assert parse(TINY, ["a", "--ctx", "1", "--ctx", "2"])["ctx"] == "2"


@pytest.mark.parametrize(
    "args",
    [
        [],  # a name is missing
        ["--ctx", "1"],
        ["a", "--ctx"],  # its value is missing
        ["a", "--ctx", "--json"],
        ["a", "--ctx", "-1"],
        ["a", "--unknown"],
        ["a", "--unknown=1"],
        ["a", "--js"],  # no abbreviations
        ["a", "--json=yes"],
        ["a", "-x"],
        ["a", "-ofile"],
        ["a", "-o=file"],
        ["a", "--", "b"],
        ["a", "--help"],
        ["a", "-h"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(args):
    """The quick parser never complains and never guesses."""
    assert parse(TINY, args) is None


@pytest.mark.parametrize("command", [ONE, NONE])
def test_too_many_arguments_are_left_to_typer(command):
    """One name, or none at all."""
    assert parse(command, ["a", "b"]) is None


def test_an_argument_may_be_absent():
    """Then it is None."""
    assert parse(PERHAPS, [])["name"] is None


WORDS = st.sampled_from(["a", "b", "-", "", "8k", "1", "llama3-8b", "a b", "=", "a=b", "é", "x/y"])
SPELLINGS = st.sampled_from(["--ctx", "--batch", "--specs", "--output", "-o"])
PIECES = st.one_of(
    WORDS.map(lambda word: [word]),
    st.tuples(SPELLINGS, WORDS).map(list),
    st.tuples(SPELLINGS.filter(lambda text: text != "-o"), WORDS).map(lambda p: ["=".join(p)]),
    st.just(["--json"]),
    st.sampled_from([["--bogus"], ["-1"], ["--"], ["-ox"], ["-o=x"], ["--ctx"], ["--json=1"]]),
)
LINES = st.lists(PIECES, max_size=6).map(lambda pieces: [word for part in pieces for word in part])


@given(LINES, st.sampled_from([TINY, ONE, NONE, PERHAPS]))
def test_both_parsers_make_the_same_values_of_a_line(line, command):
    """Whatever the quick one answers, typer would have answered."""
    quick = parse(command, line)
    if quick is not None:
        assert by_typer(command, line) == quick


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (size.COMMAND, ["llama3-8b", "--ctx", "128k", "--batch", "32", "--json"]),
        (size.COMMAND, ["a", "b", "--dtype=bf16,fp8", "--per-layer", "--specs", "x"]),
        (size.COMMAND, ["-", "--engine", "vllm@0.33.0", "--tp", "2", "-o", "out.json"]),
        (explain.COMMAND, ["a", "--tokens", "1,2", "--with-draft"]),
        (models.COMMAND, []),
        (models.COMMAND, ["a"]),
        (models.COMMAND, ["--family", "llama", "--format", "csv"]),
        (schema.COMMAND, ["spec"]),
    ],
)
def test_the_real_commands_read_the_same_through_both(command, args):
    """The lines people type."""
    quick = parse(command, args)

    assert quick is not None
    assert by_typer(command, args) == quick


def test_options_of_real_commands_are_unambiguous():
    """No spelling means two options."""
    for command in (size.COMMAND, explain.COMMAND, models.COMMAND, schema.COMMAND):
        spellings = [text for option in command.options for text in option.spellings]
        assert len(spellings) == len(set(spellings)), command.name
