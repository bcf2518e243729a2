"""llama.cpp's log lines about its cache, and those that Ollama adds.

    llama_kv_cache: size = 1536.00 MiB (131072 cells, 12 layers, 1/1 seqs), K (f16): 768.00 MiB, ...
    llama_kv_cache_init: ... KV self size = 1024.00 MiB, K (f16): 512.00 MiB, V (f16): 512.00 MiB
    llama_memory_recurrent: size = 50.25 MiB (1 cells, 32 layers, 1 seqs), R (f32): ...
    Ollama: ... memory.required.kv="1.0 GiB" ...

A model with windows prints two caches: full layers with all cells, windows with few. Source:
llama.cpp b1500 to b11434, src/llama-kv-cache.cpp, llama-memory-recurrent.cpp; Ollama 0.1 to 0.9,
llm/memory.go.
"""

from __future__ import annotations

import re

from kvplan.running import seen as s
from kvplan.running.printed import Printed, read_printed
from kvplan.running.seen import Seen

_F = r"(\d+(?:\.\d+)?)"
_CACHE = re.compile(
    rf"llama_kv_cache\w*: (?:.*?)size = +{_F} MiB \( *(\d+) cells, +(\d+) layers, "
    rf"+(\d+)(?:/\d+)? seqs\), K \((\w+)\): +{_F} MiB, V \((\w+)\): +{_F} MiB"
)
_OLD = re.compile(rf"KV self size += +{_F} MiB, K \((\w+)\): +{_F} MiB, V \((\w+)\): +{_F} MiB")
# Before b1500 without its two halves; MB meant 2^20 bytes there.
_OLDEST = re.compile(rf"(?i)\bkv self size += +{_F} Mi?B\s*$")
_RECURRENT = re.compile(
    rf"llama_memory_recurrent: +size = +{_F} MiB \( *(\d+) cells, +(\d+) layers, +(\d+) seqs\)"
)
_CELLS = re.compile(r"\bn_ctx(?:_seq)? += +(\d+)")
_NAME = re.compile(r"general\.name\s+str\s+= (.+)$|print_info: general\.name\s+= (.+)$")
_OLLAMA_KV = re.compile(r'memory\.required\.kv="([\d.]+) (GiB|MiB)"')
_OLLAMA_CTX = re.compile(r"--ctx-size (\d+)|\bKvSize:(\d+)|\bnum_ctx[=:](\d+)")


def begins(line: str) -> bool:
    """Whether a model is loaded from here on."""
    return "llama_model_loader: loaded meta data" in line


def read_line(line: str, number: int, seen: Seen) -> bool:
    """Note what a line says; False when it says nothing of llama.cpp's."""
    hints = ("llama", "self size", "print_info")
    if not any(hint in line for hint in hints):
        return False
    found = _CACHE.search(line)
    if found is not None:
        _take(seen, number, found[2], found[3], found[5], found[6], found[7], found[8])
        return True
    found = _OLD.search(line)
    if found is not None:
        _take(seen, number, None, None, found[2], found[3], found[4], found[5])
        return True
    found = _OLDEST.search(line)
    if found is not None:
        seen.pools["kv"] = read_printed(found[1], number, decimals=2)
        seen.outcome = s.STARTED
        return True
    found = _RECURRENT.search(line)
    if found is not None:
        seen.pools["recurrent"] = read_printed(found[1], number, decimals=2)
        seen.figures["recurrent_slots"] = read_printed(found[4], number)
        return True
    found = _NAME.search(line)
    if found is not None:
        seen.learn("model", (found[1] or found[2]).strip(), number)
        return True
    found = _CELLS.search(line)
    if found is not None:
        seen.learn("n_ctx", found[1], number)
        return True
    return begins(line)


def _take(
    seen: Seen, number: int, cells: str | None, layers: str | None, k: str, k_mib: str, v: str,
    v_mib: str,
) -> None:  # fmt: skip
    index = sum(1 for name in seen.pools if name.startswith("k"))
    seen.pools[f"k{index}"] = read_printed(k_mib, number, decimals=2)
    seen.pools[f"v{index}"] = read_printed(v_mib, number, decimals=2)
    seen.learn(f"k{index}_type", k, number)
    seen.learn(f"v{index}_type", v, number)
    if cells is not None and layers is not None:
        seen.figures[f"cells{index}"] = read_printed(cells, number)
        seen.figures[f"layers{index}"] = read_printed(layers, number)
    seen.outcome = s.STARTED


def begins_ollama(line: str) -> bool:
    """Whether Ollama chooses where a model goes."""
    return "memory.required.kv=" in line


def read_ollama(line: str, number: int, seen: Seen) -> bool:
    """Note what a line says; False when it is not Ollama's."""
    if "memory.required.kv" not in line and "ctx" not in line and "KvSize" not in line:
        return False
    found = _OLLAMA_KV.search(line)
    if found is not None:
        factor = 1024 if found[2] == "GiB" else 1
        printed = read_printed(found[1], number, decimals=1)
        seen.pools["kv"] = Printed(printed.value * factor, printed.step * factor, number)
        seen.outcome = s.STARTED
    context = _OLLAMA_CTX.search(line)
    if context is not None:
        seen.learn("n_ctx", context[1] or context[2] or context[3], number)
    return found is not None or context is not None
