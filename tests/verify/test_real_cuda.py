"""On a host with a CUDA device: the native allocator agrees to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.verify.torch_module import need_torch

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not need_torch().cuda.is_available(), reason="torch sees no CUDA device on this host"
)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "options",
    ["", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"],
)
def test_allocated_and_reserved(options: str) -> None:
    """In a fresh process, under each kind of allocator options."""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": options, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", "verify", "llama3-8b", "--device", "cuda",
         "--ctx", "4096", "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("tensor_bytes", "memory_allocated", "memory_reserved", "memory_allocated_peak"):
        assert found[name]["difference"] == 0
        assert found[name]["ok"] is True
