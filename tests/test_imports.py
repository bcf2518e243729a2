"""What a command loads: nothing that is slow or optional, unless it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEVER = ("torch", "numpy", "transformers", "huggingface_hub", "vllm")
FOR_TABLES = ("rich",)
FOR_FILES = ("yaml",)
FOR_ERRORS = ("typer", "click")
SLOW = ("dataclasses", "inspect", "typing_extensions", "importlib.metadata", "difflib", "fractions")


def loaded_by(code: str) -> set[str]:
    """Names of the modules in memory after running some code in a fresh interpreter."""
    program = (
        f"import sys, io\nreal, sys.stdout = sys.stdout, io.StringIO()\n{code}\n"
        "sys.stdout = real\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    )
    # -S: what the environment's .pth files load is not kvplan's doing
    paths = [str(ROOT), *(path for path in sys.path if "site-packages" in path)]
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def run(*args: str) -> str:
    return f"from kvplan.cli import main\nassert main({list(args)!r}) == 0"


def test_importing_kvplan_loads_nothing_of_it():
    """Public names are loaded when first used."""
    loaded = loaded_by("import kvplan")

    assert {name for name in loaded if name.startswith("kvplan")} == {"kvplan"}


@pytest.mark.parametrize(
    "code",
    [
        "import kvplan",
        "from kvplan import load_model, size",
        run("size", "llama3-8b", "--ctx", "8k"),
        run("size", "llama3-8b", "--ctx", "8k", "--json"),
        run("size", "qwen3-next-80b-a3b", "--format", "csv"),
        run("size", "gemma-3-27b", "--format", "markdown", "--per-layer"),
        run("explain", "llama3-8b"),
        run("models", "--search", "llama"),
        run("schema", "spec"),
        "from kvplan.cli import main\nmain([])",
    ],
    ids=lambda code: code.splitlines()[-1][:60],
)
def test_no_command_loads_a_heavy_package(code):
    """torch, numpy and the engines themselves are never needed to plan."""
    assert loaded_by(code).isdisjoint(NEVER)


@pytest.mark.parametrize(
    ("args", "never"),
    [
        (["size", "llama3-8b", "--ctx", "8k", "--json"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
        (["size", "llama3-8b", "--format", "csv"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
        (["size", "llama3-8b", "--ctx", "8k"], (*FOR_FILES, *FOR_ERRORS)),
        (["explain", "llama3-8b", "--json"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
        (["models", "--json"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
        (["models", "llama3-8b"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
        (["schema", "spec"], (*FOR_TABLES, *FOR_FILES, *FOR_ERRORS)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_only_what_it_prints_with(args, never):
    """rich for tables, yaml for files beside the catalogue, typer for help and errors."""
    assert loaded_by(run(*args)).isdisjoint(never)


def test_the_shortest_way_loads_no_slow_part_of_the_standard_library():
    """A size as JSON defines no dataclass and compares no names."""
    loaded = loaded_by(run("size", "llama3-8b", "--ctx", "8k", "--json"))

    assert loaded.isdisjoint(SLOW)


def test_an_unknown_model_loads_what_finds_its_neighbours():
    """Only then."""
    assert "difflib" in loaded_by("from kvplan.cli import main\nassert main(['size', 'lama']) == 2")
