"""A field case's figures as the log lines that its version of vLLM prints.

Of a refusal only the words around its figures are written. Which figure stands in which line, and
how it is rounded, are facts of the releases (vllm 0.2.4 to 0.33.0). Nothing that the case
does not state is written.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "data" / "field" / "vllm.json"


def load_cases() -> list[dict[str, Any]]:
    """The cases, in the order of their ids."""
    return list(json.loads(CASES.read_text(encoding="utf-8"))["cases"])


def _number(version: str | None) -> tuple[int, ...]:
    if version is None:
        return (0, 30)
    return tuple(int(part) for part in version.split(".")[:2])


def log_of(case: dict[str, Any]) -> str:
    """The log of one case."""
    figures = case.get("figures", {})
    version = case.get("version")
    v0 = case.get("v0", False)
    lines = []
    if version is not None:
        kind = "an" if _number(version) < (0, 7) else "a V0" if v0 else "a V1"
        shown = f" (v{version})" if _number(version) >= (0, 4) else ""
        length = f", max_seq_len={case['length']}" if "length" in case else ""
        model = f"model='{case['model']}'" if "model" in case else "seed=0"
        lines.append(f"Initializing {kind} LLM engine{shown} with config: {model}{length}, seed=0")
    if "block" in figures:
        lines.append(
            f"Setting attention block size to {figures['block']} tokens to ensure that "
            "attention page size is >= mamba page size."
        )
    lines += _memory(case, figures, v0=v0)
    if v0:
        lines += _first_engine(case, figures)
    else:
        lines += _second_engine(case, figures)
    prefix = "INFO 01-01 00:00:00 [vllm.py:1] "
    return "".join(prefix + line + "\n" for line in lines)


def _memory(case: dict[str, Any], figures: dict[str, Any], *, v0: bool) -> list[str]:
    terms, available = case.get("terms"), figures.get("available")
    if v0 and terms and "peak" in terms:
        return [
            f"Memory profiling results: total_gpu_memory={terms['total']:.2f}GiB "
            f"initial_memory_usage=0.50GiB peak_torch_memory={terms['peak']:.2f}GiB "
            f"memory_usage_post_profile=0.50GiB non_torch_memory={terms['non_torch']:.2f}GiB "
            f"kv_cache_size={available:.2f}GiB gpu_memory_utilization={terms['share']:.2f}"
        ]
    if v0 and terms:
        return [
            f"the current vLLM instance can use total_gpu_memory ({terms['total']:.2f}GiB) x "
            f"gpu_memory_utilization ({terms['share']:.2f})",
            f"model weights take {terms['weights']:.2f}GiB; non_torch_memory takes "
            f"{terms['non_torch']:.2f}GiB; PyTorch activation peak memory takes "
            f"{terms['activation']:.2f}GiB; the rest of the memory reserved for KV Cache is "
            f"{available:.2f}GiB.",
        ]
    lines = []
    if available is not None:
        shown = str(available) if isinstance(available, int) else f"{available:.2f}"
        lines.append(f"Available KV cache memory: {shown} GiB")
    if terms and "weights" in terms:
        lines.append(
            f"Free memory on device ({terms['total']}/{terms['total']} GiB) on startup. Desired "
            f"GPU memory utilization is ({terms['share']}). Actual usage is "
            f"{terms['weights']} GiB for weight, {terms['activation']} GiB for peak activation, "
            f"{terms['non_torch']} GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory."
        )
    elif terms:
        lines.append(
            f"Free memory on device ({terms['total']}/{terms['total']} GiB) on startup. Desired "
            f"GPU memory utilization is ({terms['share']}, {terms['requested']} GiB)."
        )
    return lines


def _first_engine(case: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    lines = []
    if "blocks" in figures:
        # No case states its CPU blocks.
        lines.append(f"# GPU blocks: {figures['blocks']}, # CPU blocks: -")
    if "concurrency" in figures:
        lines.append(
            f"Maximum concurrency for {case['length']} tokens per request: "
            f"{figures['concurrency']:.2f}x"
        )
    if "pool_tokens" in figures:
        lines.append(
            f"ValueError: max seq len ({case['length']}) ... KV cache ({figures['pool_tokens']})"
        )
    return lines


def _second_engine(case: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    lines = []
    if "num_blocks" in figures:
        lines.append(
            "Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: "
            f"{figures['num_blocks']}"
        )
    if "tokens" in figures:
        shown = figures["tokens"]
        lines.append(
            f"GPU KV cache size: {shown if isinstance(shown, str) else f'{shown:,}'} tokens"
        )
    if "concurrency" in figures:
        shown = f"{figures['concurrency']:.2f}"
        places = len(str(figures["concurrency"]).partition(".")[2])
        if places != 1:
            # Two decimals, none or more: as the case gives it. One decimal lost a zero.
            shown = str(figures["concurrency"])
        lines.append(f"Maximum concurrency for {case['length']:,} tokens per request: {shown}x")
    if "needed" in figures and "refused_available" not in figures:
        lines.append(
            f"ValueError: max seq len ({case['length']}), "
            f"({figures['needed']} GiB KV cache is needed"
        )
    if case.get("outcome") == "failed":
        lines.append("RuntimeError: Engine core initialization failed. See root cause above.")
    if "needed" in figures and "refused_available" in figures:
        longest = f"maximum model length is {figures['longest']}. " if "longest" in figures else ""
        lines.append(
            f"ValueError: max seq len ({case['length']}), "
            f"({figures['needed']} GiB KV cache is needed ... "
            f"available KV cache memory ({figures['refused_available']} GiB). {longest}"
        )
    if figures.get("available", 1) <= 0:
        # Every version of vLLM ends with this when nothing is left for the cache.
        lines.append("ValueError: No available memory for the cache blocks")
    return lines


def arguments_of(case: dict[str, Any], log: Path) -> list[str]:
    """The command line that reads a case's log."""
    words = ["verify"]
    if "model" in case and "version" not in case:
        words.append(case["model"])
    words += ["--engine-log", str(log), "--json"]
    args = case.get("args", "")
    if args:
        words += ["--engine-args", args]
    figures = case.get("figures", {})
    if "length" in case and "version" not in case and "concurrency" not in figures:
        words += ["--ctx", str(case["length"])]
    return words


def split(text: str) -> list[str]:
    """Words of a command line."""
    return shlex.split(text)
