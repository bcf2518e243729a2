"""YAML: what specs allow, and what deployment files need."""

from __future__ import annotations

from time import process_time

import pytest

from kvplan.documents.from_yaml import read_stream, read_yaml
from kvplan.documents.policy import DEPLOYMENT
from kvplan.errors import SpecError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_plain_data_comes_with_the_place_of_every_value():
    """Lines and columns count from 1; a key has a place of its own."""
    document = read_yaml("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml")

    assert document.data == {"a": 1, "b": ["x", {"c": 2}]}
    assert document.locate(("a",)) == "f.yaml:1:4"
    assert document.locate(("b", 1, "c")) == "f.yaml:4:9"
    assert document.locate(("b", 1, "c"), key=True) == "f.yaml:4:6"


def test_a_path_without_a_place_is_found_at_its_nearest_parent():
    """A missing key is reported where its mapping begins."""
    document = read_yaml("a: {b: 1}\n", "f.yaml")

    assert document.locate(("a", "missing", 3)) == "f.yaml:1:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("-3", -3), ("1.5", 1.5), ("true", True),
        ("null", None), ("~", None), ("", None), ("2024-01-01", "2024-01-01"), ("<<", "<<"),
        ("'8'", "8"), ('"true"', "true"), ("128k", "128k"), ("1e5", "1e5"),
        ("=", "="), ("|\n  two\n  lines\n", "two\nlines\n"), ("é😀", "é😀"),
    ],
)  # fmt: skip
def test_scalars_are_what_yaml_makes_of_them(text, value):
    """Numbers, truth values and nothing; dates, merge keys and the rest stay text."""
    assert read_yaml(f"a: {text}", "f.yaml").data == {"a": value}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: &x 1\nb: 2\n", "1:4", "anchor &x is not allowed"),
        ("a: 1\nb: *x\n", "2:4", "alias *x is not allowed"),
        (BOMB, "1:4", "anchor &a is not allowed"),
        ("a: !!python/object:os.system ls\n", "1:4", "tag tag:yaml.org,2002:python/object:os"),
        ("a: !env HOME\n", "1:4", "tag !env is not allowed"),
        ("a: !!int 3\n", "1:4", "tag tag:yaml.org,2002:int is not allowed"),
        ("a: 1\nb: 2\na: 3\n", "3:1", "key 'a' stands twice"),
        ("a: {b: 1, b: 2}\n", "1:11", "key 'b' stands twice"),
        ("1: a\n", "1:1", "key 1 is not a word"),
        ("yes: a\n", "1:1", "key True is not a word"),
        ("? [a, b]\n: c\n", "1:3", "is not a word"),
        ("? {a: b}\n: c\n", "1:3", "is not a word"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second document starts here"),
        ("a: " + "[" * 17 + "]" * 17, "1:19", "is nested deeper than 16 levels"),
        ("a: ! 3\n", "1:4", "tag ! is not allowed"),
        ("{a: " * 17 + "1" + "}" * 17, "1:65", "is nested deeper than 16 levels"),
        ("a: [1, 2\n", "2:1", "is not valid YAML"),
        ("a: b: c\n", "1:5", "is not valid YAML"),
        ("\ta: 1\n", "1:1", "is not valid YAML"),
        ("a: 'b\n", "2:1", "is not valid YAML"),
        ("a: %b\n", "1:4", "is not valid YAML"),
        ("a: " + "9" * 30 + "\n", "1:4", "is too large a number"),
    ],
)
def test_what_specs_do_not_allow_is_refused_at_its_place(text, place, message):
    """Anchors, tags, duplicate keys, several documents, deep nesting and broken YAML."""
    with pytest.raises(SpecError) as caught:
        read_yaml(text, "f.yaml")

    assert caught.value.where == f"f.yaml:{place}"
    assert message in caught.value.message


def test_a_hundred_thousand_levels_are_refused():
    """Whether the parser gives up first or kvplan does."""
    with pytest.raises(SpecError, match=r"^f\.yaml:1:\d+: is "):
        read_yaml("a: " + "[" * 100_000, "f.yaml")


def test_a_control_character_is_no_yaml():
    """The parser names no place for it, so only the file is named."""
    with pytest.raises(SpecError, match=r"^f\.yaml.* is not valid YAML"):
        read_yaml("a: b\x01\n", "f.yaml")


def test_a_mebibyte_of_yaml_takes_no_time_to_refuse():
    """Ten thousand keys, then an alias."""
    text = "".join(f"key{i}: [1, 2, 3]\n" for i in range(10_000)) + "last: *key\n"
    start = process_time()
    with pytest.raises(SpecError, match="alias"):
        read_yaml(text, "f.yaml")

    assert process_time() - start < 5


@pytest.mark.parametrize("text", ["1:30", "0b11", "0x20", "017", "1_0", "1:30.5", "1_0.5", "-0x1"])
def test_numbers_in_other_notations(text: str):
    """YAML 1.1 reads 1:30 as 90 and 017 as 15: nobody means that, so it is refused."""
    with pytest.raises(SpecError, match=r"another notation than the decimal") as refused:
        read_yaml(f"layers: {text}\n", "f.yaml")
    assert refused.value.where == "f.yaml:1:9"
    assert read_yaml(f'layers: "{text}"\n', "f.yaml").data == {"layers": text}


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-3", -3), ("+4", 4), ("2.5", 2.5), (".5", 0.5), ("1.0e+3", 1e3)]
)
def test_decimal_numbers(text: str, value: float):
    """Decimal whole numbers and fractions, with signs and exponents, stay what they are."""
    assert read_yaml(f"a: {text}\n", "f.yaml").data == {"a": value}


# -- deployment files --------------------------------------------------------------------------


def deployed(text: str):
    """The one document of a deployment file."""
    stream = read_stream(text, "f.yaml", DEPLOYMENT)
    assert stream.errors == ()
    (document,) = stream.documents
    return document


COMPOSE = """\
x-base: &base
  image: vllm
  environment: {HF_HOME: /hf, LEVEL: "1"}
services:
  a:
    <<: *base
    image: other
  b: *base
"""


def test_a_merge_key_brings_in_what_the_mapping_does_not_say_itself():
    """Its own key wins; each value has the place where it is written."""
    document = deployed(COMPOSE)

    assert document.data["services"]["a"] == {
        "image": "other",
        "environment": {"HF_HOME": "/hf", "LEVEL": "1"},
    }
    assert document.locate(("services", "a", "image")) == "f.yaml:7:12"
    assert document.locate(("services", "a", "environment", "LEVEL")) == "f.yaml:3:38"
    assert document.locate(("services", "a", "environment", "LEVEL"), key=True) == "f.yaml:3:31"


def test_an_alias_stands_where_it_is_written_and_its_parts_where_they_are():
    """Line 8 says `*base`; the image is written on line 2."""
    document = deployed(COMPOSE)

    assert document.locate(("services", "b")) == "f.yaml:8:6"
    assert document.locate(("services", "b", "image")) == "f.yaml:2:10"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<: [*a, *b]\n  z: 0", {"x": 1, "y": 2, "z": 0}),  # the first of several wins
        ("<<: *a\n  <<: *b", {"x": 1, "y": 2}),
        ("<<: {x: 3}\n  x: 4", {"x": 4}),
        ("z: *w", {"z": "word"}),
        ('"<<": 3', {"<<": 3}),  # quoted: a key like any other
    ],
)
def test_merging(text, value):
    """One mapping, several, or one written in place."""
    document = deployed(f"a: &a {{x: 1}}\nb: &b {{x: 5, y: 2}}\nw: &w word\nc:\n  {text}\n")

    assert document.data["c"] == value


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: &x [1, *x]\n", "1:11", "stands inside what it names"),
        ("a: *x\n", "1:4", "names no anchor before it"),
        ("a: &x 1\nb:\n  <<: *x\n", "3:7", "takes a mapping"),
        ("a:\n  <<: 3\n", "2:7", "takes a mapping"),
        ("a: {{ .Values.x }}\n", "1:5", "is not a word"),
        ("a: " + "[" * 65 + "]" * 65, "1:67", "is nested deeper than 64 levels"),
    ],
)
def test_what_no_file_may_hold(text, place, message):
    """Aliases without end or beginning, merges of no mapping, templates, and too deep nesting."""
    (error,) = read_stream(text, "f.yaml", DEPLOYMENT).errors

    assert error.where == f"f.yaml:{place}"
    assert message in error.message


def test_a_bomb_of_aliases_is_counted_for_what_it_stands_for():
    """Nine times nine times nine: 9^8 values out of some hundred bytes."""
    (error,) = read_stream(BOMB, "f.yaml", DEPLOYMENT).errors

    assert "holds more than the 500,000 values" in error.message


def test_a_tower_of_aliases_is_as_deep_as_what_it_stands_for():
    """A hundred anchors, each a list around the last."""
    text = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100))
    (error,) = read_stream(text, "f.yaml", DEPLOYMENT).errors

    assert "is nested deeper than 64 levels" in error.message


def test_every_document_of_a_stream():
    """Comments and directives belong to what follows; documents that say nothing are left out."""
    text = "# one\na: 1\n---\n# nothing\n---\n%YAML 1.1\n---\nb: 2\n...\nc: 3\n"
    documents = read_stream(text, "f.yaml", DEPLOYMENT).documents

    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert [document.locate() for document in documents] == [
        "f.yaml:2:1", "f.yaml:8:1", "f.yaml:10:1",
    ]  # fmt: skip


def test_a_broken_document_hides_no_other():
    """A tab in the second of three; places count from the start of the file."""
    stream = read_stream("a: 1\n---\nb:\n\t- 2\n---\nc:\n  d: 3\n", "f.yaml", DEPLOYMENT)

    assert [document.data for document in stream.documents] == [{"a": 1}, {"c": {"d": 3}}]
    assert stream.documents[1].locate(("c", "d")) == "f.yaml:7:6"
    assert [error.where for error in stream.errors] == ["f.yaml:4:1"]


def test_a_key_that_stands_twice_is_reported_and_the_last_one_counts():
    """As PyYAML and most readers of such files have it."""
    document = deployed("a: 1\nb: 2\na: 3\n")

    assert document.data == {"a": 3, "b": 2}
    assert document.problems == (("key 'a' stands twice", (3, 1)),)
    assert document.locate(("a",)) == "f.yaml:3:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:22", "22:22"), ("0x20", "0x20"), ("1_000", "1_000"), ("9" * 30, "9" * 30),
        ("0.90", 0.9), ("8", 8), ("yes", True), ("64Gi", "64Gi"), ("2024-01-01", "2024-01-01"),
        ("!!str 8", "8"), ("!!int 8", 8), ("!!bool maybe", "maybe"), ("! 8", "8"),
        ("!env HOME", "!env HOME"), ("!Ref", "!Ref"), ("!Sub [x, y]", {"!Sub": ["x", "y"]}),
        ("!!map {x: 1}", {"x": 1}), ("!!binary aGk=", "!!binary aGk="),
    ],
)  # fmt: skip
def test_scalars_of_deployment_files(text, value):
    """No number in another notation, and nothing that another tool would replace, is believed."""
    assert deployed(f"a: {text}\n").data == {"a": value}


def test_keys_are_the_text_they_are_written_as():
    """Ports and truth values too."""
    assert deployed("8000: a\nyes: b\n").data == {"8000": "a", "yes": "b"}


def test_a_scalar_as_it_is_written():
    """A version of 0.10 is not 0.1."""
    document = deployed('tag: 0.10\nname: "x"\nlist: [1.0]\n')

    assert document.places.written(("tag",)) == "0.10"
    assert document.places.written(("list", 0)) == "1.0"
    assert document.places.written(("name",)) is None  # a text already
    assert document.places.written(("nothing",)) is None
