"""Lines of flags: spellings, abbreviations, joined values, repeats, and places of errors."""

from __future__ import annotations

import pytest

from kvplan.engines.kit.argline import options, parse
from kvplan.engines.kit.flags import ALL, BOOLEAN, NONE, SEVERAL, SWITCH, UNKNOWN, Flag
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import boolean, mapping
from kvplan.engines.kit.words import split_words
from kvplan.errors import UsageError

TABLE = Table(
    engine="warp",
    flags=(
        Flag(name="max_len", spellings=("--max-len", "--max-length", "-m"), read=int),
        Flag(name="max_seqs", spellings=("--max-seqs",), read=int),
        Flag(name="ranks", spellings=("-tp",), read=int, default=1),
        Flag(name="cache", spellings=("--cache",), takes=BOOLEAN, read=boolean),
        Flag(name="spec", spellings=("--spec",), read=mapping, mapping=True),
        Flag(name="place", spellings=("--place", "-p"), repeats=ALL),
        Flag(name="WARP_LAYOUT"),
    ),
    rest=lambda: (
        Flag(name="--names", spellings=("--names",), takes=SEVERAL, effect=NONE),
        Flag(name="--eager", spellings=("--eager",), takes=SWITCH, effect=NONE),
        Flag(name="--task", spellings=("--task",), effect=UNKNOWN, harmless="auto|generate"),
        Flag(name="--old", spellings=("--old",), effect=UNKNOWN, instead="--new is read"),
    ),
    ignores=lambda name: not name.startswith("WARP_"),
)


def _read(text: str) -> dict[str, str]:
    return options(TABLE, parse(TABLE, split_words(text, name="job.yaml", line=7)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--max-len 8 --max_seqs=4", {"max_len": "8", "max_seqs": "4"}),
        ("-m8 -tp 2", {"max_len": "8", "ranks": "2"}),
        ("-m=-1", {"max_len": "-1"}),
        ("--max-len -1", {"max_len": "-1"}),
        ("--max-s 4", {"max_seqs": "4"}),
        ("--max-le 4", {"max_len": "4"}),  # two spellings of one flag
        ("--no-cach", {"cache": "false"}),
        ("--cache false --eager", {"cache": "false"}),
        ("--cache --eager", {"cache": "true"}),
        ("--max-len 8 --max-len 9", {"max_len": "9"}),
        ("-p a --place b", {"place": "a,b"}),
        ("--names a b c --max-len 8", {"max_len": "8"}),
        ("--task generate HOME=/x WARP_LAYOUT=B", {"WARP_LAYOUT": "B"}),
        ("--spec.a.b 1 --spec.c x", {"spec": '{"a": {"b": 1}, "c": "x"}'}),
        ("--spec.a 1 --spec '{\"a\": 2}'", {"spec": '{"a": 1}'}),
    ],
)
def test_lines(text: str, expected: dict[str, str]) -> None:
    """The last value counts, unless a flag collects them; parts come after whole objects."""
    assert _read(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("--max 8", 1, "is the beginning of several flags"),
        ("--eager stray", 9, "'stray' follows no flag"),
        ("-tp 2 --max-seqs", 7, "--max-seqs lacks its value"),
        ("-tp 2 --max-lenn 3", 7, "not a warp option"),
        ("--cache --task embed", 9, "--task may change the cache"),
        ("WARP_X=1", 1, "WARP_X may change the cache"),
        ("--eager --cache=perhaps", 9, "cannot be 'perhaps'"),
        ("--max-len.x 3", 1, "max_len has no parts"),
        ("--spec.a 1 --spec.a.b 2", 12, "a is a value"),
    ],
)
def test_errors_have_the_place_of_their_word(text: str, column: int, message: str) -> None:
    """file:line:column of the flag, not of the line."""
    with pytest.raises(UsageError, match=message) as error:
        _read(text)
    assert error.value.where == f"job.yaml:7:{column}"


def test_nothing_is_left_out() -> None:
    """Stray words, unknown flags with their values, and the place of every value."""
    arguments = parse(TABLE, split_words("serve a/B --what 1 2 --max-len=32 -m8 --eager"))
    shown = [
        (a.flag.name if a.flag else None, a.spelled, a.text, a.values[0].column if a.values else 0)
        for a in arguments
    ]
    assert shown == [
        (None, "serve", "", 0),
        (None, "a/B", "", 0),
        (None, "--what", "1 2", 18),
        ("max_len", "--max-len", "32", 32),
        ("max_len", "-m8", "8", 37),
        ("--eager", "--eager", "", 0),
    ]


def test_an_ambiguous_beginning_names_the_flags() -> None:
    """At most four of them."""
    with pytest.raises(UsageError) as error:
        _read("--max 8")
    assert error.value.hint == "--max-len --max-length --max-seqs"


def test_defaults_and_releases_of_a_row() -> None:
    """A default that changed in 0.20, a flag of 0.9 to 0.11."""
    flag = Flag(
        name="share", default=0.9, defaults=(("0.20.0", 0.92),), since="0.9.0", until="0.11.2"
    )
    assert [flag.default_in(v) for v in ("0.19.1", "0.20.0", "0.33.0")] == [0.9, 0.92, 0.92]
    assert [flag.is_in(v) for v in ("0.8.5.post1", "0.9.0", "0.11.2", "0.11.3")] == [
        False,
        True,
        True,
        False,
    ]
    assert Flag(name="x").is_in("0.1")


def test_values_by_name() -> None:
    """Dashes and underscores; a flag that is not read is not an option."""
    assert TABLE.values({"max-len": "3", "no-cache": "true"}) == {"max_len": 3, "cache": False}
    with pytest.raises(UsageError, match="'eager' is not a warp option"):
        TABLE.values({"eager": "true"})
