"""YAML as specs allow it, and files that are no specs at all."""

from __future__ import annotations

import os
import stat
from time import perf_counter

import pytest

from kvplan.errors import SpecError
from kvplan.spec import source
from kvplan.spec.source import decode, parse_yaml, read_bytes

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_plain_data_comes_with_the_place_of_every_value():
    """Lines and columns count from 1; a key's own place stands under its name and `?`."""
    document = parse_yaml("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml")

    assert document.data == {"a": 1, "b": ["x", {"c": 2}]}
    assert document.locate(("a",)) == "f.yaml:1:4"
    assert document.locate(("b", 1, "c")) == "f.yaml:4:9"
    assert document.locate(("b", 1, "c", "?")) == "f.yaml:4:6"


def test_a_path_without_a_place_is_found_at_its_nearest_parent():
    """A missing key is reported where its mapping begins."""
    document = parse_yaml("a: {b: 1}\n", "f.yaml")

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
    assert parse_yaml(f"a: {text}", "f.yaml").data == {"a": value}


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
        parse_yaml(text, "f.yaml")

    assert caught.value.where == f"f.yaml:{place}"
    assert message in caught.value.message


def test_a_hundred_thousand_levels_are_refused():
    """Whether the parser gives up first or kvplan does."""
    with pytest.raises(SpecError, match=r"^f\.yaml:1:\d+: is "):
        parse_yaml("a: " + "[" * 100_000, "f.yaml")


def test_a_control_character_is_no_yaml():
    """The parser names no place for it, so only the file is named."""
    with pytest.raises(SpecError, match=r"^f\.yaml.* is not valid YAML"):
        parse_yaml("a: b\x01\n", "f.yaml")


def test_a_mebibyte_of_yaml_takes_no_time_to_refuse():
    """Ten thousand keys, then an alias."""
    text = "".join(f"key{i}: [1, 2, 3]\n" for i in range(10_000)) + "last: *key\n"
    start = perf_counter()
    with pytest.raises(SpecError, match="alias"):
        parse_yaml(text, "f.yaml")

    assert perf_counter() - start < 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "is not text (byte 0 is not UTF-8)"),
        (b"name: \xe9\n", "is not text (byte 6 is not UTF-8)"),
        (b"\x7fELF\x02\x00\x00", "is not text (it holds NUL bytes)"),
        ("name: x\n".encode("utf-16-le"), "is not text (it holds NUL bytes)"),
    ],
)
def test_binary_is_no_text(data, message):
    """What cannot be decoded is refused with the byte that stops it."""
    with pytest.raises(SpecError) as caught:
        decode(data, "f.yaml")

    assert str(caught.value) == f"f.yaml: {message}"


def test_a_byte_order_mark_is_no_part_of_the_text():
    """Editors on Windows write one."""
    assert decode(b"\xef\xbb\xbfname: x", "f.yaml") == "name: x"


def refusal(path) -> str:
    with pytest.raises(SpecError) as caught:
        read_bytes(str(path))
    assert caught.value.where == str(path)
    return caught.value.message


def test_a_regular_file_is_read_whole(tmp_path):
    """The bytes as they are."""
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\r\n")

    assert read_bytes(str(path)) == b"a: 1\r\n"


def test_a_missing_file(tmp_path):
    """Its name as it was given."""
    assert refusal(tmp_path / "none.yaml") == "does not exist"


def test_a_directory(tmp_path):
    """A folder is no file."""
    assert refusal(tmp_path) == "is a directory, not a file"


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n"])
def test_an_empty_file(tmp_path, data):
    """Blanks alone are nothing."""
    path = tmp_path / "empty.yaml"
    path.write_bytes(data)

    assert refusal(path) == "is empty"


def test_a_fifty_megabyte_file_is_not_even_opened(tmp_path, monkeypatch):
    """The size is looked up first."""
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    monkeypatch.setattr(source, "open", None, raising=False)

    assert refusal(path) == "is 50,000,000 bytes; more than 1,048,576 cannot be right"


def test_a_fifo_is_refused_instead_of_waited_for(tmp_path):
    """Opening it would hang until someone writes."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)

    assert refusal(path) == "is not a regular file"


def test_a_device_is_refused():
    """/dev/zero never ends."""
    assert refusal("/dev/zero") == "is not a regular file"


def test_a_loop_of_links(tmp_path):
    """Two links that point at each other."""
    (tmp_path / "a.yaml").symlink_to(tmp_path / "b.yaml")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")

    assert refusal(tmp_path / "a.yaml").startswith("cannot be read: ")


def test_a_link_to_nothing(tmp_path):
    """What it points at is missing."""
    (tmp_path / "a.yaml").symlink_to(tmp_path / "gone.yaml")

    assert refusal(tmp_path / "a.yaml") == "does not exist"


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    """The system's reason is passed on."""
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(source, "open", refuse, raising=False)

    assert refusal(path) == "cannot be read: Permission denied"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission(tmp_path):
    """The same from the file system itself."""
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    path.chmod(stat.S_IWUSR)

    assert refusal(path).startswith("cannot be read: ")


def test_a_name_that_no_file_can_have():
    """A NUL in it, or more characters than any system takes."""
    assert refusal("a\0b.yaml").startswith("cannot be read: ")
    assert refusal("x" * 5000).startswith("cannot be read: ")


def test_a_path_through_a_file(tmp_path):
    """A file is no folder."""
    (tmp_path / "a.yaml").write_text("a: 1\n")

    assert refusal(tmp_path / "a.yaml" / "b.yaml").startswith("cannot be read: ")


@pytest.mark.parametrize("text", ["1:30", "0b11", "0x20", "017", "1_0", "1:30.5", "1_0.5", "-0x1"])
def test_numbers_in_other_notations(text: str):
    """YAML 1.1 reads 1:30 as 90 and 017 as 15: nobody means that, so it is refused."""
    with pytest.raises(SpecError, match=r"another notation than the decimal") as refused:
        parse_yaml(f"layers: {text}\n", "f.yaml")
    assert refused.value.where == "f.yaml:1:9"
    assert parse_yaml(f'layers: "{text}"\n', "f.yaml").data == {"layers": text}


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-3", -3), ("+4", 4), ("2.5", 2.5), (".5", 0.5), ("1.0e+3", 1e3)]
)
def test_decimal_numbers(text: str, value: float):
    """Decimal whole numbers and fractions, with signs and exponents, stay what they are."""
    assert parse_yaml(f"a: {text}\n", "f.yaml").data == {"a": value}
