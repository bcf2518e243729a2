"""Files that are not the text they should be: refused with their name, without waiting."""

from __future__ import annotations

import os
import stat

import pytest

from kvplan.documents import files
from kvplan.documents.files import decode, read_bytes
from kvplan.documents.policy import SPEC
from kvplan.errors import SpecError


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
        decode(data, "f.yaml", SPEC)

    assert str(caught.value) == f"f.yaml: {message}"


def test_a_byte_order_mark_is_no_part_of_the_text():
    """Editors on Windows write one."""
    assert decode(b"\xef\xbb\xbfname: x", "f.yaml", SPEC) == "name: x"


def refusal(path) -> str:
    with pytest.raises(SpecError) as caught:
        read_bytes(str(path), SPEC)
    assert caught.value.where == str(path)
    return caught.value.message


def test_a_regular_file_is_read_whole(tmp_path):
    """The bytes as they are."""
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\r\n")

    assert read_bytes(str(path), SPEC) == b"a: 1\r\n"


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
    monkeypatch.setattr(files, "open", None, raising=False)

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

    monkeypatch.setattr(files, "open", refuse, raising=False)

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
