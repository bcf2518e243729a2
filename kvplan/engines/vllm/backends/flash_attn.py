"""Which FlashAttention a layer gets: 2, 3 or 4, and whether it reads an fp8 cache.

    Hopper 3, SM10x 4, else 2. On Hopper, heads above 256 and sinks with unequal K and V take 4.
    On SM10x, FA4 takes heads up to 128, 256 / 256 and 192 / 128; other heads fall back to 2, and
    256 also with sinks, a quantised cache, image prefixes or decode context parallelism.

Source: vllm 0.33.0, v1/attention/backends/fa_utils.py.
"""

from __future__ import annotations

from kvplan.engines.vllm.backends.query import AttentionQuery
from kvplan.engines.vllm.facts.gpus import Gpu


def flash_attn_4(gpu: Gpu) -> bool:
    """Whether FlashAttention 4 runs on this GPU at all."""
    return gpu.major in (9, 10, 11)


def flash_version(query: AttentionQuery, *, whole_query: bool = False) -> int:
    """The version for this query; without `whole_query` only by GPU and configuration."""
    gpu = query.gpu
    version = {9: 3, 10: 4}.get(gpu.major, 2)
    if query.forced_flash_version is not None:
        version = query.forced_flash_version
    if gpu.major >= 10 and version == 3:
        version = 4 if flash_attn_4(gpu) else 2
    if not whole_query:
        return version
    head, head_v = query.head_size, query.head_size_v
    if version == 3 and gpu.major == 9 and (head > 256 or (query.sinks and head != head_v)):
        version = 4
    if version == 4 and head == 256 and head_v == 256 and gpu.major in (10, 11):
        blocked = query.block_size is not None and query.block_size % 128
        if query.sinks or query.run_quantized or blocked or query.image_prefix or query.dcp:
            version = 2
    if version == 4 and gpu.major >= 10 and head > 128:
        fits = (head == 256 and head_v == 256) or (head == 192 and head_v == 128)
        version = 4 if fits else 2
    return version


def serves_cache_dtype(query: AttentionQuery, *, by_head_size: bool = True) -> bool:
    """Whether FlashAttention reads this quantised cache on this GPU."""
    if query.cache_dtype == "fp8_e5m2":
        return False
    version = flash_version(query, whole_query=by_head_size)
    if query.gpu.major == 9:
        return version == 3 or (version == 4 and (not by_head_size or query.head_size == 512))
    return version == 4 and query.gpu.major == 10
