"""Replay of recorded operations through the allocator model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvplan.allocator import AllocatorConfig, CachingAllocator, OutOfDeviceMemory

DATA = Path(__file__).parents[1] / "data" / "verify"


def load(name: str) -> dict[str, Any]:
    """One file of recorded sequences: columns, sequences of operations, cases with rows."""
    return json.loads((DATA / name).read_text())


def replay(
    case: dict[str, Any], operations: list[list[Any]], torch_version: str
) -> Iterator[tuple[bool, CachingAllocator]]:
    """Yield, after each operation, whether it ran out of memory, and the allocator.

    Operations: `["a", name, bytes]` allocates, `["f", name]` frees, `["e"]` empties the cache.
    A name whose allocation failed is not freed again.
    """
    allocator = CachingAllocator(
        AllocatorConfig.parse(case["conf"], torch_version=torch_version),
        total_bytes=case["total"],
        other_bytes=case["other"],
        memory_fraction=case["fraction"],
    )
    handles: dict[int, int] = {}
    for kind, *arguments in operations:
        failed = False
        if kind == "a":
            name, nbytes = arguments
            try:
                handles[name] = allocator.malloc(nbytes)
            except OutOfDeviceMemory:
                failed = True
        elif kind == "f" and arguments[0] in handles:
            allocator.free(handles.pop(arguments[0]))
        elif kind == "e":
            allocator.empty_cache()
        yield failed, allocator


def row(failed: bool, allocator: CachingAllocator, columns: list[str]) -> list[int]:
    """The allocator's figures in the order of the recorded columns."""
    stats = allocator.stats
    figures = {
        "oom": int(failed),
        "allocated": stats.allocated.current,
        "reserved": stats.reserved.current,
        "active": stats.active.current,
        "requested": stats.requested.current,
        "inactive_split": stats.inactive_split.current,
        "segments": stats.segments.current,
        "allocations": stats.allocations.current,
        "retries": stats.retries,
        "ooms": stats.ooms,
        "allocated_peak": stats.allocated.peak,
        "reserved_peak": stats.reserved.peak,
        "inactive_split_peak": stats.inactive_split.peak,
        "rejections": stats.rejections,
    }
    return [figures[column] for column in columns]
