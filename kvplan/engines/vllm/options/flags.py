"""vLLM's options that matter to its KV cache: one table, and the readers of it.

A flag has a name (as in vLLM's configuration), the spellings its command line takes, a type with
vLLM's own reading rules, and a default. The table reads `Request.options`, a line of flags
(`argline`), and later deployment files; environment variables stand in it like flags. vLLM's other
flags are in `other_flags`.

vLLM's lengths: `32k` is 32,000 and `32K` is 32,768; only the small letters take decimals
(vllm 0.33.0, utils/argparse_utils.py human_readable_int).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kvplan.engines.vllm.options.other_flags import OTHERS
from kvplan.errors import UsageError

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SHOWN = 120  # characters of a value that an error repeats
TRUE, FALSE = ("true", "1", "yes", "on", ""), ("false", "0", "no", "off")


def human_int(text: str) -> int:
    """A number as vLLM reads it: `8192`, `32k` (32,000), `32K` (32,768), `25.6k` (25,600)."""
    text = text.strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text)
    if match is None:
        return int(text)
    number, suffix = match[1], match[2]
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    return int(number) * _BINARY[suffix]


def length_or_auto(text: str) -> int:
    """A length, or -1 for `-1` and `auto`."""
    return -1 if text.strip().lower() in ("-1", "auto") else human_int(text)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(text)


def _share(text: str) -> float:
    """A share of the GPU; vLLM takes above 0 and up to 1."""
    value = float(text)
    if not 0 < value <= 1:  # nan is neither
        raise ValueError(text)
    return value


def _above_zero(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _words(text: str) -> tuple[str, ...]:
    """A list as JSON (`["0", "31"]`) or as words (`0 31`, `0,31`)."""
    if text.strip().startswith("["):
        return tuple(str(item) for item in json.loads(text))
    return tuple(re.split(r"[,\s]+", text.strip())) if text.strip() else ()


@dataclass(frozen=True, slots=True)
class Flag:
    """One option.

    Attributes:
        name: vLLM's name in its configuration.
        spellings: command-line spellings, the long one first; () for an environment variable.
        read: text -> value; raises ValueError or json's error on text it cannot take.
        default: value when not given; None when vLLM settles it later.
        origin: where vLLM declares or settles it.
    """

    name: str
    spellings: tuple[str, ...]
    read: Callable[[str], Any]
    default: Any
    origin: str

    @property
    def is_switch(self) -> bool:
        """True for a flag that needs no value on the command line."""
        return self.read is _boolean

    @property
    def is_mapping(self) -> bool:
        """True for a flag that takes a JSON object."""
        return self.read is _mapping

    @property
    def is_list(self) -> bool:
        """True for a flag that takes several words."""
        return self.read is _words

    def parse(self, text: str) -> Any:
        """The value that `text` gives this flag.

        Raises:
            UsageError: the text is not such a value.
        """
        try:
            return self.read(text)
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            shown = self.spellings[0] if self.spellings else self.name
            text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            raise UsageError(f"vllm {shown} cannot be {text!r}") from error


_CACHE, _SCHED = "config/cache.py CacheConfig", "config/scheduler.py SchedulerConfig"
_MODEL, _PARALLEL = "config/model.py ModelConfig", "config/parallel.py ParallelConfig"
_ENV = "envs.py"

TABLE: tuple[Flag, ...] = (
    Flag("gpu", (), str, "h100", "kvplan: which kernels, and so which block sizes, vllm chooses"),
    Flag("max_model_len", ("--max-model-len",), length_or_auto, None, _MODEL),
    Flag("dtype", ("--dtype",), str, "auto", _MODEL),
    Flag("quantization", ("--quantization", "-q"), str, None, _MODEL),
    Flag("language_model_only", ("--language-model-only",), _boolean, False, _MODEL),
    Flag("kv_cache_dtype", ("--kv-cache-dtype",), str, "auto", _CACHE),
    Flag("block_size", ("--block-size",), int, None, _CACHE),
    Flag("gpu_memory_utilization", ("--gpu-memory-utilization", "--device-memory-utilization"),
         _share, None, _CACHE),
    Flag("kv_cache_memory_bytes", ("--kv-cache-memory-bytes", "--kv-cache-memory"), human_int, None,
         _CACHE),
    Flag("num_gpu_blocks_override", ("--num-gpu-blocks-override",), int, None, _CACHE),
    Flag("enable_prefix_caching", ("--enable-prefix-caching",), _boolean, None,
         "engine/arg_utils.py _set_default_chunked_prefill_and_prefix_caching_args"),
    Flag("kv_cache_dtype_skip_layers", ("--kv-cache-dtype-skip-layers",), _words, (), _CACHE),
    Flag("attention_backend", ("--attention-backend",), str, None, "config/attention.py"),
    Flag("mamba_cache_dtype", ("--mamba-cache-dtype",), str, "auto", _CACHE),
    Flag("mamba_ssm_cache_dtype", ("--mamba-ssm-cache-dtype",), str, "auto", _CACHE),
    Flag("mamba_block_size", ("--mamba-block-size",), _above_zero, None, _CACHE),
    Flag("max_num_batched_tokens", ("--max-num-batched-tokens",), human_int, None,
         "engine/arg_utils.py get_batch_defaults"),
    Flag("max_num_seqs", ("--max-num-seqs",), int, None, "engine/arg_utils.py get_batch_defaults"),
    Flag("enable_chunked_prefill", ("--enable-chunked-prefill",), _boolean, None, _SCHED),
    Flag("async_scheduling", ("--async-scheduling",), _boolean, None,
         "config/vllm.py VllmConfig (async scheduling)"),
    Flag("disable_hybrid_kv_cache_manager", ("--disable-hybrid-kv-cache-manager",), _boolean, None,
         "config/vllm.py VllmConfig (hybrid KV cache manager)"),
    Flag("speculative_config", ("--speculative-config", "-sc"), _mapping, None,
         "config/speculative.py SpeculativeConfig"),
    Flag("tensor_parallel_size", ("--tensor-parallel-size", "-tp"), int, 1, _PARALLEL),
    Flag("pipeline_parallel_size", ("--pipeline-parallel-size", "-pp"), int, 1, _PARALLEL),
    Flag("data_parallel_size", ("--data-parallel-size", "-dp"), int, 1, _PARALLEL),
    Flag("decode_context_parallel_size", ("--decode-context-parallel-size", "-dcp"), int, 1,
         _PARALLEL),
    Flag("VLLM_KV_CACHE_LAYOUT", (), str, None, _ENV),
    Flag("VLLM_PP_LAYER_PARTITION", (), str, None, _ENV),
    Flag("VLLM_MLA_DISABLE", (), _boolean, False, _ENV),
    Flag("VLLM_ALLOW_LONG_MAX_MODEL_LEN", (), _boolean, False, _ENV),
    Flag("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", (), _boolean, True, _ENV),
    Flag("VLLM_USE_V2_MODEL_RUNNER", (), _boolean, True, _ENV),
)  # fmt: skip

FLAGS: dict[str, Flag] = {flag.name: flag for flag in TABLE}
_BY_SPELLING = {spelling: flag for flag in TABLE for spelling in flag.spellings}


def find_flag(text: str) -> tuple[Flag, bool] | None:
    """The flag that a name or spelling means, and whether it is meant positively.

    `--no-x` negates a switch, and `--enable-x` / `--disable-x` are each other's negation.
    """
    if text in FLAGS:
        return FLAGS[text], True
    bare = text.lstrip("-").replace("_", "-")
    dashes = "-" if text.startswith("-") and not text.startswith("--") else "--"
    if (flag := _BY_SPELLING.get(dashes + bare)) is not None:
        return flag, True
    if (flag := FLAGS.get(bare.replace("-", "_"))) is not None:
        return flag, True
    opposite = ""
    if bare.startswith("no-"):
        opposite = bare[3:]
    elif bare.startswith("disable-"):
        opposite = "enable-" + bare[8:]
    elif bare.startswith("enable-"):
        opposite = "disable-" + bare[7:]
    flag = _BY_SPELLING.get("--" + opposite)
    return (flag, False) if flag is not None and flag.is_switch else None


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Values of `Request.options`: flag names (with `_` or `-`) and texts.

    Raises:
        UsageError: a name that is not in the table, or a text its flag cannot take.
    """
    values: dict[str, Any] = {}
    for name, text in options.items():
        found = find_flag(name)
        if found is None:
            raise unknown(name)
        flag, positive = found
        value = flag.parse(text)
        values[flag.name] = value if positive else not value
    return values


def unknown(name: str) -> UsageError:
    """The error for an option that vLLM does not have, with the nearest that it has."""
    spellings = [spelling for flag in TABLE for spelling in flag.spellings or (flag.name,)]
    wanted = name if name.isupper() else "--" + name.lstrip("-").replace("_", "-")
    close = get_close_matches(wanted, [*spellings, *OTHERS], 1)
    return UsageError(
        f"{name!r} is not a vllm option that kvplan knows",
        hint=f"did you mean {close[0]}?" if close else "`vllm serve --help=all` lists vllm's own",
    )
