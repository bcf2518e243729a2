"""Which files a check reads: those that are given, and what lies in the folders that are given.

Sorted, so two runs say the same. A folder is searched for files that may start an engine; hidden
folders and those of packages are passed over. A link inside a folder counts only where it leads to
a place inside the folder: a tree from strangers is not to read what lies beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kvplan.errors import InputError

STDIN = "-"
_SUFFIXES = frozenset(
    (".yaml", ".yml", ".json", ".py", ".sh", ".bash", ".slurm", ".sbatch", ".service",
     ".container", ".pbtxt", ".env", ".modelfile", ".tpl")
)  # fmt: skip
_PASSED = frozenset(("node_modules", "__pycache__", "site-packages", "vendor"))
_MOST_FILES = 100_000


def find_files(paths: Iterable[str]) -> list[str]:
    """Every file, each once.

    Raises:
        InputError: a path that does not exist, or more files than a tree can rightly have.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            if path != STDIN and not os.path.lexists(path):
                raise InputError("does not exist", where=path)
            found[path] = None
            continue
        for file in _inside(path):
            found[file] = None
            if len(found) > _MOST_FILES:
                raise InputError(f"holds more than {_MOST_FILES:,} files", where=path)
    return list(found)


def _inside(folder: str) -> Iterator[str]:
    root = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _PASSED
        )
        for name in sorted(files):
            path = os.path.join(parent, name)
            if _may_start(name) and _is_within(path, root):
                yield path[2:] if path.startswith("./") else path


def _may_start(name: str) -> bool:
    lower = name.lower()
    return os.path.splitext(lower)[1] in _SUFFIXES or lower.startswith(("modelfile", "dockerfile"))


def _is_within(path: str, root: str) -> bool:
    """Whether a file is a regular one that does not leave the folder through a link."""
    if not os.path.islink(path):
        return os.path.isfile(path)
    target = os.path.realpath(path)
    return os.path.isfile(target) and target.startswith(root.rstrip(os.sep) + os.sep)
