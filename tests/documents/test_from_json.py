"""JSON: places of keys and items, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.documents.document import Renamed
from kvplan.documents.from_json import read_json
from kvplan.documents.policy import CONFIG, DEPLOYMENT
from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config_text
from kvplan.importers.config.read import parse, read_file
from tests.importers.config_cases import llama


def test_values_and_places() -> None:
    """Keys are located by line and column, nested ones too; data is what json would give."""
    source = parse('{\n  "a": 1,\n  "b": {"c": [1, 2.5, "x\\u00e9\\n"],\n    "d": null}}', "f.json")
    assert source.data == {"a": 1, "b": {"c": [1, 2.5, "xé\n"], "d": None}}
    assert source.locate(("a",), key=True) == "f.json:2:3"
    assert source.locate(("b", "c"), key=True) == "f.json:3:9"
    assert source.locate(("b", "d")) == "f.json:4:5"
    assert source.locate(("b", "nowhere")) == "f.json:3:3"  # the nearest parent
    assert source.locate(("b", "c", 2)) == "f.json:3:23"  # an item of a list
    assert source.locate() == "f.json:1:1"


def test_infinity_is_read() -> None:
    """Published Nemotron-H files hold Infinity in time_step_limit."""
    data = parse('{"time_step_limit": [0.0, Infinity], "x": -Infinity}', "f").data
    assert data == {"time_step_limit": [0.0, float("inf")], "x": float("-inf")}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"a": 1, "a": 2}', "f:1:10", "stands twice"),
        ('{"a": {"b": 1,\n"b": 1}}', "f:2:1", "stands twice"),
        ("[1]", "f:1:1", "no JSON object"),
        ("", "f:1:1", "expected a value"),
        ('{"a": 1', "f:1:8", "expected ',' or '}'"),
        ('{"a": 1,}', "f:1:9", "expected a key"),
        ('{"a" 1}', "f:1:6", "expected ':'"),
        ('{"a": 01}', "f:1:7", "expected a value"),
        ('{"a": 1.}', "f:1:7", "expected a value"),
        ('{"a": nul}', "f:1:7", "expected a value"),
        ('{"a": "x}', "f:1:7", "a text without end"),
        ('{"a": "\t"}', "f:1:7", "control characters"),
        ('{"a": "\\ud800"}', "f:1:7", "broken escape"),
        ('{"a": "\\q"}', "f:1:7", "broken escape"),
        ('{"a": 1} 2', "f:1:10", "follows the last value"),
        ("{'a': 1}", "f:1:2", "double quotes"),
        ('{"a": ' + "9" * 401 + "}", "f:1:7", "400 digits"),
        ('{"a": [1 2]}', "f:1:10", "expected ',' or ']'"),
    ],
)
def test_refused(text: str, where: str, what: str) -> None:
    """Every broken file is refused with its place."""
    with pytest.raises(ImportRefused) as refused:
        parse(text, "f")
    assert refused.value.where == where
    assert what in refused.value.message


def test_what_the_parser_lets_pass_is_found_in_large_files_too() -> None:
    """The last of ten thousand objects has a key twice, is too deep, or holds half a character."""
    for last, what in [
        ('{"a": 1, "a": 2}', "stands twice"),
        ("[" * 64 + "]" * 64, "nested deeper"),
        ('"\\ud83d"', "broken escape"),
        ("1" * 401, "400 digits"),
    ]:
        text = '{"list": [' + '{"a": 1}, ' * 10_000 + last + "]}"
        with pytest.raises(ImportRefused, match=what):
            parse(text, "f")
    pair = '"\\ud83d\\ude00"'
    assert parse('{"a": ' + pair + "}", "f").data == {"a": "\U0001f600"}


def test_a_key_that_stands_twice_may_be_reported() -> None:
    """Of a deployment file the last one counts, and places are its own."""
    document = read_json('{"a": {"x": 1},\n"a": {"y": [2]}}', "f", DEPLOYMENT)
    assert document.data == {"a": {"y": [2]}}
    assert document.problems == (("key 'a' stands twice", (2, 1)),)
    assert document.locate(("a", "x")) == "f:2:1"
    assert document.locate(("a", "y", 0)) == "f:2:13"


def test_places_under_other_names() -> None:
    """A reader that renames a file's keys still finds them."""
    places = Renamed(parse('{\n"dim": 1}', "f").places, {"hidden_size": "dim"})
    assert places.find(("hidden_size",)) == (2, 1)


def test_depth_is_bounded() -> None:
    """A file of brackets is refused at a fixed depth, without recursion."""
    parse('{"a":' + "[" * (CONFIG.max_depth - 1) + "1" + "]" * (CONFIG.max_depth - 1) + "}", "f")
    with pytest.raises(ImportRefused, match="nested deeper"):
        parse('{"a":' * 1_000_000, "f")


def test_values_are_bounded() -> None:
    """A file of a million small values is refused before it fills memory."""
    with pytest.raises(ImportRefused, match="values that can be right"):
        parse('{"a": [' + "1," * CONFIG.max_values + "1]}", "f")


def test_file_errors(tmp_path) -> None:
    """A missing, binary or empty file is refused as such."""
    with pytest.raises(ImportRefused, match="does not exist"):
        read_file(str(tmp_path / "config.json"))
    binary = tmp_path / "b.json"
    binary.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ImportRefused, match="not text"):
        read_file(str(binary))
    empty = tmp_path / "e.json"
    empty.write_text(" \n")
    with pytest.raises(ImportRefused, match="is empty"):
        read_file(str(empty))


def test_text_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config from standard input is read in a folder that has been deleted."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert import_config_text(json.dumps(llama()), "<stdin>").spec.name == "stdin"
    assert import_config_text(json.dumps(llama()), "config.json").spec.name == "model"
