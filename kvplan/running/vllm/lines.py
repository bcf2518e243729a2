"""vLLM's log lines about its cache, in the wordings of all its versions.

    0.2 - 0.8 (V0)   # GPU blocks: 1952, # CPU blocks: 2048      (or the device's name for GPU)
    0.6 - 0.8 (V0)   Memory profiling results: ... kv_cache_size=3.81GiB ...
    0.7 - 0.9 (V0)   ... the rest of the memory reserved for KV Cache is 3.81GiB.
    0.6.2 on         Maximum concurrency for 20000 tokens per request: 1.56x
    0.7 (V1)         # GPU blocks: 1952
    0.8 on           GPU KV cache size: 31,232 tokens
    0.9.2 on         Available KV cache memory: 3.81 GiB
    0.28 on          both figures in one line; since 0.30 it begins with the device's kind

Prefixes (time, process, rank) differ with version and launcher: patterns are searched for, not
matched.
Source: vllm 0.2.4 to 0.33.0, engine/llm_engine.py, executor/, worker/, v1/core/kv_cache_utils.py,
v1/worker/gpu_worker.py.
"""

from __future__ import annotations

import re

from kvplan.running import seen as s
from kvplan.running.printed import Printed, read_printed
from kvplan.running.seen import Seen
from kvplan.running.vllm.config_line import is_start, read_args, read_config

_T = r"(\d[\d,]{0,18}(?:\.\d{1,3})?[kK]?)"
# Bounded, so that a line of digits cannot become a number without end.
_N, _G = r"(-?\d[\d,]{0,18})", r"(-?\d{1,9}(?:\.\d{1,9})?)"

# (pattern, names of its groups); GiB figures are rounded to two decimals by every version.
_FIGURES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), names)
    for pattern, names in (
        (rf"# [\w ]+ blocks: {_N}, # CPU blocks: {_N}?", (s.BLOCKS, s.CPU_BLOCKS)),
        (rf"# GPU blocks: {_N}\s*$", (s.BLOCKS,)),
        (rf"num_gpu_blocks is: {_N}", (s.BLOCKS,)),
        (rf"\b[A-Z]{{2,4}}(?: \+ host)? KV cache size: {_T} tokens", (s.CAPACITY,)),
        (rf"Maximum concurrency for {_N} tokens per request: {_G}x", ("length", s.CONCURRENCY)),
        (rf"Available KV cache memory: {_G} GiB", (s.AVAILABLE,)),
        (rf"reserved for KV Cache is {_G} ?GiB", (s.AVAILABLE,)),
        (rf"\bkv_cache_size={_G}GiB", (s.AVAILABLE,)),
        (rf"Setting attention block size to {_N} tokens", (s.BLOCK_SIZE,)),
        (rf"maximum model length is {_N}", (s.LONGEST,)),
    )
)
_GIB = frozenset((s.AVAILABLE, s.NEEDED, s.NEEDED_AVAILABLE))

_TOO_LONG = re.compile(
    rf"max seq len \({_N}\)[^(]*\({_G} Gi?B KV cache is needed"
    rf"(?:.*?available KV cache memory \({_G} Gi?B\))?"
)
_POOL_TOO_SMALL = re.compile(rf"max seq len \({_N}\) [^(]{{0,120}}KV cache \({_N}\)")
_NO_MEMORY = "No available memory for the cache"
_FAILED = re.compile(r"Engine core initialization failed|EngineCore failed to start")
# What ends a start that has its pool, by code; the first that is seen counts.
_FAILURES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"CUDA out of memory|OutOfMemoryError|HIP out of memory"), "cuda-out-of-memory"),
    (re.compile(r"max_num_seqs \(\d+\)[^(]*Mamba cache blocks"), "state-blocks-too-few"),
)

_TERMS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), names)
    for pattern, names in (
        (rf"total_gpu_memory \({_G}GiB\) x gpu_memory_utilization \({_G}\)(?: = {_G}GiB)?",
         ("total", "share", "requested")),
        (rf"model weights take {_G}GiB; non_torch_memory takes {_G}GiB; "
         rf"PyTorch activation peak memory takes {_G}GiB", ("weights", "non_torch", "activation")),
        (rf"Free memory on device \({_G}/{_G} GiB\) on startup\. Desired GPU memory utilization "
         rf"is \({_G}(?:, {_G} GiB)?\)", ("free", "total", "exact_share", "requested")),
        (rf"Actual usage is {_G} GiB for weight, {_G} GiB for peak activation, {_G} GiB for "
         rf"non-torch memory", ("weights", "activation", "non_torch")),
    )
)  # fmt: skip

_SETTINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"vLLM (?:API )?server version v?(\d[\w.+-]{0,60})"), "version"),
    (re.compile(r"vLLM server version \S+, serving model (\S{1,400})"), "model"),
    (re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,12})"),
     "max_num_batched_tokens"),
    (re.compile(r"Overriding num_gpu_blocks=\d+ with num_gpu_blocks_override=(\d{1,12})"),
     "num_gpu_blocks_override"),
    (re.compile(r"Using max model len (\d{1,12})"), "max_model_len"),
)  # fmt: skip

_HINTS = (
    "KV cache", "KV Cache", "blocks", "vLLM", "LLM engine", "args: ", "memory", "block size",
    "max seq len", "Maximum concurrency", "max model len", "max_num_batched_tokens",
    "model weights take", "ngineCore", "Engine core", "num_gpu_blocks", "kv_cache_size",
    "out of memory", "OutOfMemoryError", "Mamba cache", "█", "▀", "▄",
)  # fmt: skip


def begins(line: str) -> bool:
    """Whether a start of the engine begins with this line."""
    return is_start(line) or "vLLM API server version" in line or "non-default args: " in line


def read_line(line: str, number: int, seen: Seen) -> bool:
    """Note what a line says; False when it says nothing of vLLM's."""
    # The line of a serving engine, thousands of times in a long log.
    if "prompt throughput" in line or not any(hint in line for hint in _HINTS):
        return False
    known = read_config(line, number, seen) or read_args(line, number, seen)
    known |= _read_refusal(line, number, seen)
    for pattern, names in _FIGURES:
        found = pattern.search(line)
        if found is not None:
            known = True
            _take(found, names, number, seen)
    for pattern, names in _TERMS:
        found = pattern.search(line)
        if found is not None:
            known = True
            for name, text in zip(names, found.groups(), strict=True):
                if text is not None:
                    seen.terms.setdefault(*_term(name, text, number))
    if "Memory profiling results" in line:
        known |= _read_terms(line, number, seen)
    if _BANNER.search(line) is not None:
        known |= _read_banner(line, number, seen)
    for pattern, setting in _SETTINGS:
        found = pattern.search(line)
        if found is not None:
            known = True
            seen.learn(setting, found[1].rstrip(".,"), number)
    return known


# Before 0.7 the whole budget stood in one line, as names and values.
_OLD_TERMS = {
    "total_gpu_memory": "total",
    "peak_torch_memory": "activation",
    "non_torch_memory": "non_torch",
    "gpu_memory_utilization": "share",
}
_PAIR = re.compile(r"\b(\w{1,60})=(\d{1,9}(?:\.\d{1,9})?)")
_BANNER = re.compile("[▀▄█]")


def _read_terms(line: str, number: int, seen: Seen) -> bool:
    for name, text in _PAIR.findall(line):
        if name in _OLD_TERMS:
            seen.terms.setdefault(_OLD_TERMS[name], read_printed(text, number, decimals=2))
    return True


def _read_banner(line: str, number: int, seen: Seen) -> bool:
    """The server's banner beside its logo: its version, its model."""
    known = False
    for name, pattern in (
        ("version", r"\bversion v?(\d[\w.+-]{0,60})"),
        ("model", r"\bmodel +(\S{1,400})"),
    ):
        found = re.search(pattern, line)
        if found is not None:
            seen.learn(name, found[1], number)
            known = True
    return known


def _take(found: re.Match[str], names: tuple[str, ...], number: int, seen: Seen) -> None:
    for name, text in zip(names, found.groups(), strict=True):
        if text is None:
            continue
        if name == "length":
            # What the engine planned for: `--max-model-len auto` is settled here.
            seen.facts["max_model_len"] = s.Fact(text.replace(",", ""), number)
            continue
        figure = read_printed(text, number, decimals=2 if name in _GIB else None)
        if name == s.CONCURRENCY:
            figure = read_printed(text, number, decimals=2)
        seen.take(name, figure)
    if s.CPU_BLOCKS in names:
        seen.v0 = True
    elif s.CAPACITY in names:
        seen.outcome = seen.outcome or s.STARTED


def _term(name: str, text: str, number: int) -> tuple[str, Printed]:
    if name == "exact_share":
        # V1 prints the option as it was given.
        return "share", Printed(float(text), 0.0, number)
    return name, read_printed(text, number, decimals=2)


def _read_refusal(line: str, number: int, seen: Seen) -> bool:
    if _NO_MEMORY in line:
        seen.outcome = s.NO_MEMORY
        return True
    for pattern, code in _FAILURES:
        if pattern.search(line) is not None:
            seen.failure = seen.failure or code
            return True
    if _FAILED.search(line) is not None:
        if seen.outcome == s.STARTED:
            seen.failure = seen.failure or "engine-died"
        seen.outcome = seen.outcome or s.FAILED
        return True
    found = _TOO_LONG.search(line)
    if found is not None:
        seen.outcome = s.TOO_LONG
        seen.facts["max_model_len"] = s.Fact(found[1].replace(",", ""), number)
        seen.take(s.NEEDED, read_printed(found[2], number, decimals=2))
        if found[3] is not None:
            seen.take(s.NEEDED_AVAILABLE, read_printed(found[3], number, decimals=2))
        return True
    found = _POOL_TOO_SMALL.search(line)
    if found is not None:
        seen.outcome, seen.v0 = s.TOO_LONG, True
        seen.facts["max_model_len"] = s.Fact(found[1].replace(",", ""), number)
        seen.take(s.POOL_TOKENS, read_printed(found[2], number))
        return True
    return False
