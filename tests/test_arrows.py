"""Arrows between rooms run one way, as ARCHITECTURE.md draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kvplan"

# A room may import its own and lower ranks, at the top of a module or inside a function.
RANKS = {
    "record": 0, "errors": 0, "printable": 0, "notice": 0, "units": 0, "search": 0, "steps": 0,
    "arithmetic": 0,
    "dtypes": 0, "estimate": 0,
    "checks": 1, "documents": 1, "hardware": 1,
    "spec": 2,
    "engines": 3, "importers": 3,
    "load": 4, "allocator": 4, "budget": 4,
    "plan": 5,
    "replay": 6, "running": 6, "verify": 6,
    "report": 7,
    "cli": 8,
}  # fmt: skip
# The one arrow back: a draft model that --speculative-config names is loaded like any other.
EXCEPTIONS = {("engines/vllm/engine.py", "load")}

# Importing these takes longer than answering: only these rooms do, and never for other commands.
HEAVY = {"torch": {"verify"}, "rich": {"report", "cli"}, "numpy": set(), "typer": {"cli"}}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports when it runs: not under TYPE_CHECKING."""
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        stack += ast.iter_child_nodes(node)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_no_room_above_it(path: Path) -> None:
    """cli -> report -> verify -> plan -> load -> (importers, engines) -> spec -> the basics."""
    own = room(path)
    if own in ("__init__", "__main__"):
        pytest.skip("the package's face shows every room")
    name = path.relative_to(PACKAGE).as_posix()
    targets = {module.split(".")[1] for module in imported(path) if module.startswith("kvplan.")}
    above = {other for other in targets if RANKS[other] > RANKS[own]}

    assert {(name, other) for other in above} <= EXCEPTIONS


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    """torch in verify, rich in report and cli, numpy nowhere."""
    found = {module.split(".")[0] for module in imported(path)} & HEAVY.keys()

    assert all(room(path) in HEAVY[name] for name in found)
