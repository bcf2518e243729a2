"""Which files a check reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvplan.check.paths import find_files
from kvplan.errors import InputError


def test_a_folder_is_searched_in_order(tmp_path: Path) -> None:
    """Sorted, without hidden folders, packages and files of other kinds."""
    for name in ("b.yaml", "a/z.yml", "a/x.txt", ".git/c.yaml", "node_modules/d.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x: 1")

    found = find_files([str(tmp_path)])
    assert [os.path.relpath(path, tmp_path) for path in found] == ["b.yaml", "a/z.yml"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """A tree from strangers does not read what lies beside it."""
    (tmp_path / "secret.yaml").write_text("x: 1")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "own.yaml").write_text("x: 1")
    (tree / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    (tree / "in.yaml").symlink_to(tree / "own.yaml")
    (tree / "folder").symlink_to(tmp_path)

    found = [os.path.basename(path) for path in find_files([str(tree)])]
    assert found == ["in.yaml", "own.yaml"]


def test_a_path_that_does_not_exist_is_an_error() -> None:
    """Before anything is read."""
    with pytest.raises(InputError):
        find_files(["/does/not/exist.yaml"])
