"""The documentation shows what kvplan really prints, and leaves no command out."""

from __future__ import annotations

import ast
import doctest
import re

import pytest
import typer

from kvplan.spec.model import Rope
from kvplan.spec.vocabulary import KIND_NAMES, model_words, state_words, words
from tests.docs_blocks import PAGES, ROOT, Shown, agrees, run, shown

# The help's layout is typer's: pages show that of this minor version.
HELP_TYPER = "0.29"

SHOWN = [item for page in PAGES for item in shown(page)]


@pytest.mark.parametrize("item", SHOWN, ids=lambda item: f"{item.page.name}: {item.command}")
def test_a_page_shows_the_real_output(item: Shown) -> None:
    """`python -m tests.docs_blocks` brings the pages up to date."""
    if item.command.endswith("--help") and not typer.__version__.startswith(f"{HELP_TYPER}."):
        pytest.skip(f"the pages show the help of typer {HELP_TYPER}, this is {typer.__version__}")
    assert agrees(item.output, run(item.command)), run(item.command)


def test_every_command_has_a_page() -> None:
    """docs/commands/ has one page per command of `kvplan --help`."""
    listed = re.findall(
        r"^  ([a-z]+) ", run("kvplan --help").partition("Commands:")[2], re.MULTILINE
    )
    pages = {page.stem for page in (ROOT / "docs" / "commands").glob("*.md")}

    assert listed
    assert set(listed) <= pages


def test_the_readme_shows_the_help() -> None:
    """The README's `kvplan --help` is one of the compared blocks."""
    commands = {item.command for item in SHOWN if item.page.name == "README.md"}

    assert "kvplan --help" in commands
    assert "kvplan size llama3-8b --ctx 128k --batch 32" in commands


def test_the_python_page_is_true() -> None:
    """Every example of docs/python.md gives what stands below it."""
    found = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)

    assert found.attempted > 10
    assert found.failed == 0


def test_the_readme_s_python_is_true() -> None:
    """Each line of its block is what its comment says."""
    (block,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    lines = [line for line in block.splitlines() if line]
    exec(lines[0], names)
    for line in lines[1:]:
        code, _, said = line.partition("  # ")
        assert str(eval(code, names)) == said


def test_every_key_of_a_spec_is_documented() -> None:
    """docs/specs.md names each key of the top level, of rotary scaling and of each kind."""
    text = (ROOT / "docs" / "specs.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+)`", text))
    top = {*model_words(), *(word.name for word in words(Rope)), "kinds", "attention", "layers"}

    assert top - named - {"name"} == set()  # every example begins with a name
    for kind in KIND_NAMES:
        (row,) = re.findall(rf"^\| `{kind}` \|.*$", text, re.MULTILINE)
        if "as `full`" in row or "the same" in row:
            row += " kv_heads head_dim v_head_dim heads"
        missing = [word for word in state_words(kind) if not re.search(rf"\b{word}\b", row)]
        # Every recurrent kind has its formats, which the list below the table explains once;
        # these two have no convolution.
        common = {"dtype", "conv_dtype"} | (
            {"conv_kernel"} if kind in ("lightning", "rwkv") else set()
        )
        assert set(missing) <= common, kind


def test_every_warning_is_documented() -> None:
    """Each id that the source can give has a row in docs/commands/size.md."""
    ids: set[str] = set()
    constants: dict[str, str] = {}
    calls: list[ast.Call] = []
    for path in (ROOT / "kvplan").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                constants |= {
                    t.id: node.value.value for t in node.targets if isinstance(t, ast.Name)
                }
            if isinstance(node, ast.Call) and node.args:
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if called in ("Notice", "warn"):
                    calls.append(node)
    for call in calls:
        first = call.args[0]
        if isinstance(first, ast.Constant):
            ids.add(first.value)
        elif isinstance(first, ast.Name) and first.id in constants:
            ids.add(constants[first.id])
    text = (ROOT / "docs" / "commands" / "size.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))

    assert len(ids) > 10
    assert ids == rows
