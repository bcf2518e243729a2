"""Arrows between rooms run one way, as ARCHITECTURE.md draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kvplan"

# A room may import its own and lower ranks, at the top of a module or inside a function.
RANKS = {
    "record": 0, "named_tuple": 0, "errors": 0, "printable": 0, "notice": 0, "units": 0,
    "search": 0, "steps": 0,
    "arithmetic": 0,
    "dtypes": 0, "estimate": 0,
    "documents": 1, "hardware": 1,
    "spec": 2,
    "engines": 3, "importers": 3,
    "load": 4, "allocator": 4, "budget": 4,
    "deployments": 5, "plan": 5, "checks": 6, "check": 6,
    "replay": 7, "running": 7, "verify": 7,
    "report": 8,
    "cli": 9,
}  # fmt: skip
# Importing these takes longer than answering: only these rooms do, and never for other commands.
HEAVY = {"torch": {"verify"}, "rich": {"report", "cli"}, "numpy": set(), "typer": {"cli"}}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at the top, in a function, or for its types alone."""
    yield from _imports(path, for_types=True)


def _imports(path: Path, *, for_types: bool) -> Iterator[str]:
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if typing and not for_types:
            assert isinstance(node, ast.If)
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
    targets = {module.split(".")[1] for module in imported(path) if module.startswith("kvplan.")}

    assert not {other for other in targets if RANKS[other] > RANKS[own]}


def test_no_circle_of_files() -> None:
    """Whatever a file imports, for its types too, does not lead back to it."""
    names = {_module(path): path for path in modules()}
    del names["kvplan"]  # the package's face shows every room, each when it is first asked for
    arrows = {
        name: {target for target in _targets(path, names) if target != name}
        for name, path in names.items()
    }
    left = dict(arrows)
    while True:
        ends = {name for name, targets in left.items() if not targets & left.keys()}
        if not ends:
            break
        left = {name: targets for name, targets in left.items() if name not in ends}

    assert not left, _circle(left)


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(path: Path, names: dict[str, Path]) -> Iterator[str]:
    """The files behind each import: `from room import file` is the file, not the room's face."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{item.name}" for item in node.names]
            files = [name for name in inner if name in names]
            yield from files
            if len(files) < len(inner) and node.module in names:
                yield node.module


def _circle(left: dict[str, set[str]]) -> list[str]:
    """One way round, to say where."""
    way = [min(left)]
    while True:
        following = min(left[way[-1]] & left.keys())
        if following in way:
            return way[way.index(following) :]
        way.append(following)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    """torch in verify, rich in report and cli, numpy nowhere."""
    running = _imports(path, for_types=False)
    found = {module.split(".")[0] for module in running} & HEAVY.keys()

    assert all(room(path) in HEAVY[name] for name in found)
