"""Every example runs and prints what its text promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs_blocks import ROOT, run

EXAMPLES = ROOT / "examples"


def test_compare_formats() -> None:
    """Llama 3.1 8B keeps 4 GiB per 32k tokens in 16 bit: 2 x 32 x 8 x 128 x 2 B x 32,768."""
    script = EXAMPLES / "compare_formats.py"
    shown = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert shown.stdout == "bf16   10 sequences\nfp8    20 sequences\nq4_0   35 sequences\n"


def test_my_hybrid() -> None:
    """(52 x 1,024 + 10 x 65,536) tokens x 2 x 16 x 128 x 2 B = 5,804,916,736 bytes."""
    assert "(5,804,916,736 bytes)" in run("kvplan size examples/my-hybrid.yaml --ctx 64k")


def test_every_example_is_named() -> None:
    """The README of the examples leaves none out."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in Path(EXAMPLES).iterdir()} - {"README.md"}

    assert all(name in text for name in names)
