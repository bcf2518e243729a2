"""vLLM's options that matter to its KV cache: the rows that kvplan reads, and the whole table.

The table reads `Request.options`, a line of flags (`argline`) and deployment files; environment
variables stand in it like flags. vLLM's other flags are in `other_flags`.
Source: vllm 0.33.0, engine/arg_utils.py and the files named in each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.engines.kit.flags import BOOLEAN, ONE, SEVERAL, Flag, Meaning
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import boolean, human_int, items, mapping, positive, share
from kvplan.engines.vllm.options.other_flags import INSTEAD, is_harmless_setting, other_flags


def length_or_auto(text: str) -> int:
    """A length, or -1 for `-1` and `auto`."""
    return -1 if text.strip().lower() in ("-1", "auto") else human_int(text)


def _optimization(text: str) -> int:
    """A level from 0 to 3, or an older release's JSON: 0 where that captures no whole steps."""
    if not text.lstrip().startswith("{"):
        return int(text)
    mode = str(mapping(text).get("cudagraph_mode", "")).upper()
    return 0 if mode in ("NONE", "PIECEWISE") else 3


_CACHE, _SCHED = "config/cache.py CacheConfig", "config/scheduler.py SchedulerConfig"
_MODEL, _PARALLEL = "config/model.py ModelConfig", "config/parallel.py ParallelConfig"
_ENV = "envs.py"


def _row(
    name: str, spellings: tuple[str, ...], read: Callable[[str], Any], default: Any, origin: str
) -> Flag:
    takes = BOOLEAN if read is boolean else SEVERAL if read is items else ONE
    return Flag(
        name=name, spellings=spellings, takes=takes, read=read, mapping=read is mapping,
        default=default, origin=origin,
    )  # fmt: skip


_FLAGS: tuple[Flag, ...] = (
    _row("gpu", (), str, "h100", "kvplan: which kernels, and so which block sizes, vllm chooses"),
    _row("transformers", ("--transformers",), str, None,
         "kvplan: the transformers library beside vllm"),
    _row("max_model_len", ("--max-model-len",), length_or_auto, None, _MODEL),
    _row("dtype", ("--dtype",), str, "auto", _MODEL),
    _row("quantization", ("--quantization", "-q"), str, None, _MODEL),
    _row("language_model_only", ("--language-model-only",), boolean, False, _MODEL),
    _row("kv_cache_dtype", ("--kv-cache-dtype",), str, "auto", _CACHE),
    _row("block_size", ("--block-size",), int, None, _CACHE),
    _row("gpu_memory_utilization", ("--gpu-memory-utilization", "--device-memory-utilization"),
         share, None, _CACHE),
    _row("kv_cache_memory_bytes", ("--kv-cache-memory-bytes", "--kv-cache-memory"), human_int, None,
         _CACHE),
    _row("swap_space", ("--swap-space",), float, 4.0, f"{_CACHE}: GiB of host memory, up to 0.10"),
    _row("num_gpu_blocks_override", ("--num-gpu-blocks-override",), int, None, _CACHE),
    _row("enable_prefix_caching", ("--enable-prefix-caching",), boolean, None,
         "engine/arg_utils.py _set_default_chunked_prefill_and_prefix_caching_args"),
    _row("kv_cache_dtype_skip_layers", ("--kv-cache-dtype-skip-layers",), items, (), _CACHE),
    _row("attention_backend", ("--attention-backend",), str, None, "config/attention.py"),
    _row("mamba_cache_dtype", ("--mamba-cache-dtype",), str, "auto", _CACHE),
    _row("mamba_ssm_cache_dtype", ("--mamba-ssm-cache-dtype",), str, "auto", _CACHE),
    _row("mamba_block_size", ("--mamba-block-size",), positive, None, _CACHE),
    _row("mamba_cache_mode", ("--mamba-cache-mode",), str, "none", _CACHE),
    _row("enforce_eager", ("--enforce-eager",), boolean, False, _MODEL),
    _row("compilation_config", ("--compilation-config", "-cc"), mapping, None,
         "config/compilation.py CompilationConfig"),
    _row("optimization_level", ("--optimization-level",), _optimization, None,
         "config/vllm.py VllmConfig"),
    _row("distributed_executor_backend", ("--distributed-executor-backend",), str, None,
         _PARALLEL),
    _row("max_num_batched_tokens", ("--max-num-batched-tokens",), human_int, None,
         "engine/arg_utils.py get_batch_defaults"),
    _row("max_num_seqs", ("--max-num-seqs",), int, None, "engine/arg_utils.py get_batch_defaults"),
    _row("enable_chunked_prefill", ("--enable-chunked-prefill",), boolean, None, _SCHED),
    _row("async_scheduling", ("--async-scheduling",), boolean, None,
         "config/vllm.py VllmConfig (async scheduling)"),
    _row("disable_hybrid_kv_cache_manager", ("--disable-hybrid-kv-cache-manager",), boolean, None,
         "config/vllm.py VllmConfig (hybrid KV cache manager)"),
    _row("speculative_config", ("--speculative-config", "-sc"), mapping, None,
         "config/speculative.py SpeculativeConfig"),
    _row("tensor_parallel_size", ("--tensor-parallel-size", "-tp"), int, 1, _PARALLEL),
    _row("pipeline_parallel_size", ("--pipeline-parallel-size", "-pp"), int, 1, _PARALLEL),
    _row("data_parallel_size", ("--data-parallel-size", "-dp"), int, 1, _PARALLEL),
    _row("decode_context_parallel_size", ("--decode-context-parallel-size", "-dcp"), int, 1,
         _PARALLEL),
    _row("enable_expert_parallel", ("--enable-expert-parallel", "-ep"), boolean, False, _PARALLEL),
    _row("VLLM_KV_CACHE_LAYOUT", (), str, None, _ENV),
    _row("VLLM_PP_LAYER_PARTITION", (), str, None, _ENV),
    _row("VLLM_MLA_DISABLE", (), boolean, False, _ENV),
    _row("VLLM_ALLOW_LONG_MAX_MODEL_LEN", (), boolean, False, _ENV),
    _row("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", (), boolean, None, _ENV),
    _row("VLLM_USE_V2_MODEL_RUNNER", (), boolean, None, _ENV),
)  # fmt: skip


def _level(word: str) -> Meaning | None:
    """`-O3`, `-O 3` and, of older releases, `-O '{...}'`."""
    if re.fullmatch(r"-O\w*", word) is None:
        return None
    return Meaning(_BY_NAME["optimization_level"], joined=word[2:] or None)


_BY_NAME = {flag.name: flag for flag in _FLAGS}

TABLE = Table(
    engine="vllm",
    flags=_FLAGS,
    rest=other_flags,
    special=_level,
    ignores=is_harmless_setting,
    instead=INSTEAD,
    help="`vllm serve --help=all` lists vllm's own",
)
FLAGS: dict[str, Flag] = TABLE.by_name


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Values of `Request.options`: flag names (with `_` or `-`) and texts.

    Raises:
        UsageError: a name that is not in the table, or a text its flag cannot take.
    """
    return TABLE.values(options)
