"""SGLang's log lines about its pools: tokens and the bytes of K and V, per rank.

    KV Cache is allocated. dtype: torch.bfloat16, #tokens: 330323, K size: 10.08 GB, V size: ...
    KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB
    Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state ...
    SWAKVPool mem usage: 64.52 GB, swa size: 644444, full size: 805556

Its GB are GiB. Source: sglang 0.4 to 0.5.23, mem_cache/memory_pool.py, server_args.py.
"""

from __future__ import annotations

import re

from kvplan.running import seen as s
from kvplan.running.printed import read_printed
from kvplan.running.seen import Seen

_G = r"(\d+(?:\.\d+)?) ?GB"
_SPLIT = re.compile(
    rf"KV Cache is allocated\.(?: dtype: torch\.(\w+),)? ?#tokens: (\d+), K size: {_G}, "
    rf"V size: {_G}"
)
_TOTAL = re.compile(
    rf"KV Cache is allocated\.(?: dtype: torch\.(\w+),)? ?#tokens: (\d+), KV size: {_G}"
)
_SWA = re.compile(rf"SWAKVPool mem usage: {_G}, swa size: (\d+), full size: (\d+)")
_STATES = re.compile(
    rf"Mamba Cache is allocated\. max_mamba_cache_size: (\d+), conv_state size: {_G}, "
    rf"ssm_state size: {_G}"
)
_SUMMARY = re.compile(r"max_total_num_tokens=(\d+)")
_ARGS = {
    "tensor_parallel_size": r"\btp_size=(\d+)",
    "data_parallel_size": r"\bdp_size=(\d+)",
    "pipeline_parallel_size": r"\bpp_size=(\d+)",
    "kv_cache_dtype": r"kv_cache_dtype='([^']+)'",
    "model": r"model_path='([^']+)'",
    "page_size": r"\bpage_size=(\d+)",
    "enable_dp_attention": r"enable_dp_attention=(True|False)",
}


def begins(line: str) -> bool:
    """Whether SGLang prints its arguments here."""
    return "server_args=ServerArgs(" in line


def read_line(line: str, number: int, seen: Seen) -> bool:
    """Note what a line says; False when it says nothing of SGLang's."""
    if "size" not in line and "server_args" not in line and "max_total_num_tokens" not in line:
        return False
    if begins(line):
        for name, pattern in _ARGS.items():
            found = re.search(pattern, line)
            if found is not None:
                seen.learn(name, found[1], number)
        return True
    for pool, names in ((_SPLIT, ("k", "v")), (_TOTAL, ("kv",))):
        found = pool.search(line)
        if found is not None:
            if found[1]:
                seen.learn("element", found[1], number)
            seen.take(s.CAPACITY, read_printed(found[2], number))
            for name, text in zip(names, found.groups()[2:], strict=True):
                seen.pools.setdefault(name, read_printed(text, number, decimals=2))
            seen.outcome = s.STARTED
            return True
    found = _SWA.search(line)
    if found is not None:
        seen.pools["swa_pool"] = read_printed(found[1], number, decimals=2)
        seen.figures["swa_tokens"] = read_printed(found[2], number)
        seen.figures["full_tokens"] = read_printed(found[3], number)
        seen.outcome = s.STARTED
        return True
    found = _STATES.search(line)
    if found is not None:
        seen.figures["state_slots"] = read_printed(found[1], number)
        seen.pools["conv"] = read_printed(found[2], number, decimals=2)
        seen.pools["states"] = read_printed(found[3], number, decimals=2)
        return True
    found = _SUMMARY.search(line)
    if found is not None:
        seen.take(s.CAPACITY, read_printed(found[1], number))
        seen.outcome = s.STARTED
        return True
    return False
