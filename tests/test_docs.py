"""The documentation shows what kvplan really prints, and leaves no command out."""

from __future__ import annotations

import re

import pytest

from tests.docs_blocks import PAGES, ROOT, Shown, agrees, run, shown

SHOWN = [item for page in PAGES for item in shown(page)]


@pytest.mark.parametrize("item", SHOWN, ids=lambda item: f"{item.page.name}: {item.command}")
def test_a_page_shows_the_real_output(item: Shown) -> None:
    """`python -m tests.docs_blocks` brings the pages up to date."""
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
