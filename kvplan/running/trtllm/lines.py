"""TensorRT-LLM's log lines about its paged cache.

    [MemUsageChange] Allocated 7.31 GiB for max tokens in paged KV cache (273792).

    Allocate 13186891776 bytes for k/v cache. / Using 100608 total tokens in paged KV cache   (0.8)

The last such line counts: a profiling run prints a smaller one first. Source: TensorRT-LLM 0.5 to
1.x, cpp/tensorrt_llm/batch_manager, executor logs.
"""

from __future__ import annotations

import re

from kvplan.running import seen as s
from kvplan.running.printed import Printed, read_printed
from kvplan.running.seen import Seen
from kvplan.units import GIB

_ALLOCATED = re.compile(r"Allocated (\d+(?:\.\d+)?) GiB for max tokens in paged KV cache \((\d+)\)")
# Up to 0.8 the bytes stood in a line of their own, in full.
_OLD_BYTES = re.compile(r"Allocate (\d{1,18}) bytes for k/v cache")
_OLD_TOKENS = re.compile(r"Using (\d{1,12}) (?:total )?tokens in paged KV cache")
_PER_TOKEN = re.compile(r"kv size (?:per token )?is (\d+)")
_TENSOR_PARALLEL = re.compile(r"\b(?:tp_size|tensor_parallel_size)[=:] ?(\d+)")


def begins(line: str) -> bool:
    """Whether TensorRT-LLM names itself here, as it does once per process."""
    return "TensorRT-LLM version:" in line or "TensorRT LLM version:" in line


def read_line(line: str, number: int, seen: Seen) -> bool:
    """Note what a line says; False when it says nothing of TensorRT-LLM's."""
    if "LLM" not in line and "KV cache" not in line and "k/v cache" not in line:
        return False
    if begins(line):
        version = re.search(r"LLM version: (\S+)", line)
        if version is not None:
            seen.learn("version", version[1], number)
        return True
    found = _ALLOCATED.search(line)
    if found is not None:
        seen.pools["kv"] = read_printed(found[1], number, decimals=2)
        seen.figures[s.CAPACITY] = read_printed(found[2], number)
        seen.outcome = s.STARTED
        return True
    found = _OLD_BYTES.search(line)
    if found is not None:
        seen.pools["kv"] = Printed(int(found[1]) / GIB, 0.0, number)
        return True
    found = _OLD_TOKENS.search(line)
    if found is not None:
        seen.figures[s.CAPACITY] = read_printed(found[1], number)
        seen.outcome = s.STARTED
        return True
    found = _PER_TOKEN.search(line)
    if found is not None and "KV cache" in line:
        seen.figures["bytes_per_token"] = read_printed(found[1], number)
        return True
    if "TensorRT-LLM" in line or "TRT-LLM" in line:
        found = _TENSOR_PARALLEL.search(line)
        if found is not None:
            seen.learn("tensor_parallel_size", found[1], number)
            return True
    return False
