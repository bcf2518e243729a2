"""Commands shown in the documentation, with their real output.

A block that begins with ```console holds commands behind `$ ` and what they print. The test suite
runs each `$ kvplan ...` and compares; `python -m tests.docs_blocks` writes the real output in.
A line `...` in a block stands for any lines (left out for length).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shown(NamedTuple):
    """One command of a page and the output the page shows for it."""

    page: Path
    command: str
    output: str


def shown(page: Path) -> Iterator[Shown]:
    """Every `$ kvplan` command of a page."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("kvplan"):
                yield Shown(page, command, output.rstrip("\n"))


def run(command: str) -> str:
    """What a `kvplan` command prints on stdout and stderr, in a plain environment."""
    keep = {"PATH", "HOME", "SYSTEMROOT", "TMPDIR", "LANG"}
    environment = {name: value for name, value in os.environ.items() if name in keep}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", *shlex.split(command)[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=environment,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout.rstrip("\n")


def agrees(output: str, real: str) -> bool:
    """Whether a page's output is the real one, `...` lines standing for any lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.$\n?", output, flags=re.MULTILINE)]
    return re.fullmatch("(?s:.*?)".join(parts), real) is not None


def update(page: Path) -> None:
    """Write the real output behind every command whose output is shown whole."""
    text = page.read_text(encoding="utf-8")
    for item in shown(page):
        if not agrees(item.output, run(item.command)):
            old = f"$ {item.command}\n{item.output}\n" if item.output else f"$ {item.command}\n"
            text = text.replace(old, f"$ {item.command}\n{run(item.command)}\n")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        update(each)
