"""A folder of specs and its index: the index saves time and never decides what is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from kvplan.documents import from_yaml
from kvplan.errors import InputError, KvplanError, SpecError
from kvplan.load import load_model
from kvplan.spec import catalogue as catalogue_module
from kvplan.spec import folder as folder_module
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.folder import SpecFolder, builtin_folder
from kvplan.spec.index import INDEX_NAME, dumps, write

ROOT = Path(__file__).parents[2]
SPEC = "name: {name}\ndtype: bfloat16\nlayers: {layers}\nattention: {{kv_heads: 1, head_dim: 8}}\n"


@pytest.fixture
def folder(tmp_path):
    """Three specs of 1, 2 and 3 layers and a fresh index over them."""
    for layers, name in enumerate(("one", "two", "three"), start=1):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name, layers=layers))
    write(str(tmp_path / INDEX_NAME), SpecFolder(str(tmp_path)).compiled())
    return tmp_path


def names(folder: Path, **options) -> list[str]:
    return sorted(data["name"] for _, data in SpecFolder(str(folder), **options).files())


def layers(folder: Path, name: str, **options) -> int:
    files = SpecFolder(str(folder), **options).files()
    (found,) = (data["layers"] for _, data in files if data["name"] == name)
    return found


def test_an_index_has_one_line_per_file(folder):
    """Name, size, time of writing, checksum and plain data of each file, under one checksum."""
    head, *rows = (folder / INDEX_NAME).read_text().splitlines()

    assert [row.split("\t")[0] for row in rows] == ["one.yaml", "three.yaml", "two.yaml"]
    _, size, modified, checksum, data = rows[2].split("\t")
    text = SPEC.format(name="two", layers=2).encode()
    assert (int(size), int(checksum)) == (len(text), zlib.crc32(text))
    assert int(modified) == (folder / "two.yaml").stat().st_mtime_ns
    assert json.loads(data)["layers"] == 2
    assert head == f"kvplan-index 3 {zlib.crc32(''.join(row + chr(10) for row in rows).encode())}"


@pytest.mark.parametrize("installed", [False, True])
def test_unchanged_files_are_not_parsed(folder, monkeypatch, installed):
    """That is what the index is for."""
    monkeypatch.setattr(from_yaml, "read_yaml", None)

    assert names(folder, installed=installed) == ["one", "three", "two"]


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: b"null",
        lambda text: b"\0\xff",
        lambda text: text[: len(text) // 2],  # cut
        lambda text: text.replace(b'"layers": 2', b'"layers": 9'),  # row and its checksum kept
        lambda text: text.replace(b"\t", b" "),
        lambda text: text.replace(b"kvplan-index 3 ", b"kvplan-index 3 1"),
        lambda text: text.replace(b"kvplan-index 3", b"kvplan-index 2"),
        lambda text: text + b" ",
        lambda text: b"<<<<<<< ours\n" + text,
        lambda text: b"{" * 1000,
    ],
)
def test_a_damaged_index_costs_time_and_nothing_else(folder, damage, installed):
    """Whatever stands in it, the files decide."""
    path = folder / INDEX_NAME
    path.write_bytes(damage(path.read_bytes()))

    assert names(folder, installed=installed) == ["one", "three", "two"]
    assert layers(folder, "two", installed=installed) == 2


@pytest.mark.parametrize("installed", [False, True])
def test_every_byte_of_the_index_counts(folder, installed):
    """One bit turned anywhere: all three models are there, with their own layers."""
    path = folder / INDEX_NAME
    text = path.read_bytes()
    for at in range(0, len(text), 7):
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        files = SpecFolder(str(folder), installed=installed).files()
        assert sorted(data["layers"] for _, data in files) == [1, 2, 3]


def test_a_folder_without_an_index_gets_one(folder, monkeypatch):
    """As in a fresh clone: the first command parses, the next ones need not."""
    (folder / INDEX_NAME).unlink()
    assert names(folder) == ["one", "three", "two"]
    monkeypatch.setattr(from_yaml, "read_yaml", None)

    assert names(folder) == ["one", "three", "two"]


def test_a_folder_of_the_users_own_is_only_read(folder):
    """No index is believed there, and none is written."""
    (folder / INDEX_NAME).unlink()

    assert names(folder, indexed=False) == ["one", "three", "two"]
    assert not (folder / INDEX_NAME).exists()


def test_a_folder_that_cannot_be_written_is_read_all_the_same(folder, monkeypatch):
    """It costs time each time."""
    (folder / INDEX_NAME).unlink()
    monkeypatch.setattr("kvplan.spec.index.open", None, raising=False)
    monkeypatch.setattr(folder_module, "write", lambda *_: (_ for _ in ()).throw(OSError()))

    assert names(folder) == ["one", "three", "two"]


@pytest.mark.parametrize("layers_now", [20, 7])
def test_an_edited_file_takes_effect_at_once(folder, layers_now):
    """Of another size, or of the same: the time of writing tells."""
    (folder / "two.yaml").write_text(SPEC.format(name="two", layers=layers_now))

    assert layers(folder, "two") == layers_now
    assert layers(folder, "two") == layers_now  # out of the index that was written


def test_an_edit_of_the_same_size_and_time_is_seen_when_the_file_is_used(folder):
    """The checksum tells: what a lookup returns is always what the file says."""
    path = folder / "two.yaml"
    before = path.stat()
    path.write_text(SPEC.format(name="two", layers=7))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert SpecFolder(str(folder)).document("two.yaml").data["layers"] == 7


def test_a_new_file_is_found(folder):
    """Without compiling by hand."""
    (folder / "four.yml").write_text(SPEC.format(name="four", layers=4))

    assert names(folder) == ["four", "one", "three", "two"]


def test_a_removed_file_is_gone(folder):
    """The index still knows it, the folder does not."""
    (folder / "two.yaml").unlink()

    assert names(folder) == ["one", "three"]


def test_a_touched_file_is_still_what_was_compiled(folder, monkeypatch):
    """The same bytes are not parsed again."""
    os.utime(folder / "two.yaml")
    monkeypatch.setattr(from_yaml, "read_yaml", None)

    assert layers(folder, "two") == 2


def test_other_files_and_hidden_ones_are_left_alone(folder):
    """Notes, and the lock and backup files of editors."""
    (folder / "README.md").write_text("# notes")
    (folder / ".#one.yaml").symlink_to("nobody@nowhere")
    (folder / ".two.yaml").write_text("]")
    (folder / "two.yaml~").write_text("]")

    assert names(folder) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("name: [\n"), "2:1: is not valid YAML"),
        (lambda path: path.mkdir(), " is a directory, not a file"),
        (lambda path: os.mkfifo(path), " is not a regular file"),
        (lambda path: path.symlink_to("gone"), " does not exist"),
        (lambda path: path.symlink_to(path.name), " cannot be read: Too many levels of symbolic"),
        (lambda path: path.write_bytes(b"\xff"), " is not text"),
        (lambda path: path.write_bytes(b""), " is empty"),
        (lambda path: path.write_bytes(b"#" * (2**20 + 1)), " is 1,048,577 bytes; more than"),
    ],
)
def test_a_file_that_is_no_spec_stands_in_nobodys_way(folder, make, message):
    """It is named once in a warning; asked for by its file's name, it is the error."""
    make(folder / "bad.yaml")

    found = load_model("two", specs=[str(folder)])

    (warning,) = found.warnings
    assert warning.id == "spec-left-out"
    assert f"bad.yaml:{message}" in warning.message
    with pytest.raises(SpecError, match=r"bad\.yaml:" + message):
        load_model("bad", specs=[str(folder)])
    with pytest.raises(KvplanError, match=r"left out, as it cannot be read: .*bad\.yaml"):
        load_model("another", specs=[str(folder)])


def test_an_error_in_a_compiled_spec_has_its_place(folder, monkeypatch):
    """The index keeps no places, so the file is read again."""
    (folder / "two.yaml").write_text("name: two\nlayers: 0\nattention: {kind: none}\n")
    assert len(names(folder)) == 3  # compiled
    monkeypatch.setattr(catalogue_module, "builtin_folder", lambda: SpecFolder(str(folder)))

    with pytest.raises(SpecError, match=r"two\.yaml:2:9: layers is 0"):
        Catalogue([]).find("two").spec()
    with pytest.raises(SpecError, match=r"two\.yaml:2:9: layers is 0"):
        SpecFolder(str(folder)).compiled()  # `make catalogue`


def test_an_installed_model_whose_file_is_gone_is_still_known(folder):
    """The index under its checksum says what it was."""
    (folder / "two.yaml").unlink()

    assert SpecFolder(str(folder), installed=True).document("two.yaml").data["layers"] == 2


def test_a_missing_catalogue_is_an_error_of_one_line(monkeypatch):
    """Neither in the package nor beside it."""
    builtin_folder.cache_clear()
    monkeypatch.setattr(os.path, "isdir", lambda path: False)

    with pytest.raises(InputError, match="the model catalogue is missing"):
        builtin_folder()


def test_an_index_does_not_depend_on_the_order_of_files(folder):
    """The same folder gives the same bytes."""
    compiled = SpecFolder(str(folder)).compiled()

    assert dumps(compiled) == dumps(dict(reversed(compiled.items())))


@pytest.mark.parametrize("place", ["kvplan/model_specs", "model_specs"])
def test_the_catalogue_works_inside_a_zip_archive(tmp_path, place):
    """As in a wheel that is imported without being installed, and as in a zipped clone."""
    archive = tmp_path / "kvplan.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (ROOT / "kvplan").rglob("*"):
            if path.suffix in (".py", ".tsv", ".json") and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(ROOT))
        for path in (ROOT / "model_specs").iterdir():
            file.write(path, f"{place}/{path.name}")
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r});"
        "import kvplan; print(kvplan.__file__);"
        "print(kvplan.size('llama3-8b', ctx=131072, batch=32).logical.bytes);"
        "from kvplan.cli import main; sys.exit(main(['models', 'meta-llama/llama-2-7b-hf']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith(str(archive))
    assert lines[1] == "549755813888"  # 32 x 131,072 x 32 layers x 2 x 8 x 128 x 2
    assert "name: llama2-7b" in lines
