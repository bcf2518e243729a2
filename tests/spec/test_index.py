"""The compiled index: it saves time and never decides what is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kvplan.errors import SpecError
from kvplan.spec import index as index_module
from kvplan.spec.index import INDEX_NAME, SpecFolder

ROOT = Path(__file__).parents[2]
SPEC = "name: {name}\ndtype: bfloat16\nlayers: {layers}\nattention: {{kv_heads: 1, head_dim: 8}}\n"


@pytest.fixture
def folder(tmp_path):
    """Three specs of 1, 2 and 3 layers and a fresh index over them, all a minute old."""
    for layers, name in enumerate(("one", "two", "three"), start=1):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name, layers=layers))
    (tmp_path / INDEX_NAME).write_text(SpecFolder(str(tmp_path)).compile())
    for path in tmp_path.iterdir():
        age(path, 60)
    return tmp_path


def age(path: Path, seconds: float) -> None:
    """Make a file look as if it had been written that long ago."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def names(folder: Path, holding: str = "") -> list[str]:
    documents = SpecFolder(str(folder)).documents(holding)
    return sorted(document.data["name"] for document in documents)


def layers(folder: Path, name: str) -> int:
    (found,) = (d for d in SpecFolder(str(folder)).documents() if d.data["name"] == name)
    return found.data["layers"]


def test_an_index_is_json_with_one_line_per_file(folder):
    """Size, checksum and plain data of each file, by its name."""
    index = json.loads((folder / INDEX_NAME).read_text())

    assert list(index) == ["one.yaml", "three.yaml", "two.yaml"]
    assert index["two.yaml"]["size"] == len(SPEC.format(name="two", layers=2))
    assert index["two.yaml"]["doc"]["layers"] == 2


def test_unchanged_files_are_not_parsed(folder, monkeypatch):
    """That is what the index is for."""
    monkeypatch.setattr(index_module, "read_yaml", None)

    assert names(folder) == ["one", "three", "two"]


def test_only_documents_that_may_hold_a_text_are_read(folder):
    """A lookup leaves the rest of the catalogue alone."""
    assert names(folder, "tw") == ["two"]
    assert names(folder, "nothing") == []


def test_a_folder_without_an_index_is_read_file_by_file(folder):
    """A user's own folder has none."""
    (folder / INDEX_NAME).unlink()

    assert names(folder) == ["one", "three", "two"]


def test_an_edited_file_takes_effect_at_once(folder):
    """Another size, or written after the index."""
    (folder / "two.yaml").write_text(SPEC.format(name="two", layers=20))

    assert layers(folder, "two") == 20


def test_an_edit_of_the_same_size_takes_effect_at_once(folder):
    """The time of writing tells."""
    (folder / "two.yaml").write_text(SPEC.format(name="two", layers=7))

    assert layers(folder, "two") == 7


def test_an_edit_of_the_same_size_and_age_is_seen_when_the_file_is_used(folder):
    """The checksum tells: what a lookup returns is always what the file says."""
    path = folder / "two.yaml"
    path.write_text(SPEC.format(name="two", layers=7))
    age(path, 120)

    assert SpecFolder(str(folder)).document("two.yaml").data["layers"] == 7


def test_a_new_file_is_found(folder):
    """Without compiling again."""
    (folder / "four.yml").write_text(SPEC.format(name="four", layers=4))

    assert names(folder) == ["four", "one", "three", "two"]


def test_a_removed_file_is_gone(folder):
    """The index still knows it, the folder does not."""
    (folder / "two.yaml").unlink()

    assert names(folder) == ["one", "three"]


def test_a_touched_file_is_still_what_was_compiled(folder, monkeypatch):
    """The same bytes are not parsed again."""
    os.utime(folder / "two.yaml")
    monkeypatch.setattr(index_module, "read_yaml", None)

    assert layers(folder, "two") == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "\0\xff", "{" * 1000, "<<<<<<< ours\n{\n", '{"two.yaml": 3}']
)
def test_a_broken_index_costs_time_and_nothing_else(folder, text):
    """Whatever stands in it, the files decide."""
    (folder / INDEX_NAME).write_bytes(text.encode("latin-1"))

    assert names(folder) == ["one", "three", "two"]


def test_other_files_and_hidden_ones_are_left_alone(folder):
    """Notes, and the lock and backup files of editors."""
    (folder / "README.md").write_text("# notes")
    (folder / ".#one.yaml").symlink_to("nobody@nowhere")
    (folder / ".two.yaml").write_text("]")
    (folder / "two.yaml~").write_text("]")

    assert names(folder) == ["one", "three", "two"]


def test_a_broken_spec_is_named_with_its_place(folder):
    """It could be the one that is looked for, so it is not skipped."""
    (folder / "two.yaml").write_text("name: [\n")

    with pytest.raises(SpecError, match=r"two\.yaml:2:1: is not valid YAML"):
        names(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "is a directory, not a file"),
        (lambda path: os.mkfifo(path), "is not a regular file"),
        (lambda path: path.symlink_to("gone"), "cannot be read: No such file or directory"),
        (lambda path: path.symlink_to(path.name), "cannot be read: Too many levels of symbolic"),
        (lambda path: path.write_bytes(b"\xff"), "is not text"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"#" * (2**20 + 1)), "is 1,048,577 bytes; more than"),
    ],
)
def test_what_is_no_spec_file_is_named(folder, make, message):
    """A folder, a pipe, a dead link: nothing hangs and nothing escapes as another error."""
    make(folder / "bad.yaml")

    with pytest.raises(SpecError, match=r"bad\.yaml: " + message):
        names(folder)


def test_a_spec_that_breaks_the_vocabulary_is_not_compiled(folder):
    """The error has its place, which the index would not keep."""
    (folder / "two.yaml").write_text("name: two\nlayers: 0\nattention: {kind: none}\n")

    with pytest.raises(SpecError, match=r"two\.yaml:2:9: layers is 0"):
        SpecFolder(str(folder)).compile()


@pytest.mark.parametrize("place", ["kvplan/model_specs", "model_specs"])
def test_the_catalogue_works_inside_a_zip_archive(tmp_path, place):
    """As in a wheel that is imported without being installed, and as in a zipped clone."""
    archive = tmp_path / "kvplan.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (ROOT / "kvplan").rglob("*"):
            if path.suffix in (".py", ".tsv", ".json"):
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
