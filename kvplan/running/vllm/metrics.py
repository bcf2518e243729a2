"""vLLM's Prometheus metrics: the labels of `vllm:cache_config_info` and the model's name.

    vllm:cache_config_info{block_size="16",num_gpu_blocks="27793",cache_dtype="auto",...} 1.0

The labels are the fields of vLLM's CacheConfig as texts, so their set changes with the version.
Blocks are exact there, and no rounding stands between them and the rules. Source: vllm 0.6.3 to
0.33.0, engine/metrics.py, v1/metrics/loggers.py, config/cache.py metrics_info.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvplan.errors import InputError
from kvplan.running import seen as s
from kvplan.running.printed import read_printed
from kvplan.running.seen import Seen

_INFO = re.compile(r"^vllm[:_]cache_config_info\{(.*)\}\s+(\S+)")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_MODEL = re.compile(r'^vllm[:_]\w+\{[^}]*\bmodel_name="((?:[^"\\]|\\.)*)"')

# Label -> vLLM's option; only what decides the layout.
_OPTIONS = {
    "cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "mamba_cache_dtype": "mamba_cache_dtype",
    "mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype",
    "num_gpu_blocks_override": "num_gpu_blocks_override",
}


def read_metrics(lines: Iterable[str], name: str) -> Seen:
    """What a Prometheus text says of vLLM's cache.

    Args:
        lines: the text.
        name: where it came from, for messages.

    Raises:
        InputError: it is no Prometheus text of vLLM's, or a label is no number.
    """
    seen = Seen(engine="vllm", first_line=1)
    number = 0
    for number, line in enumerate(lines, 1):
        model = _MODEL.match(line)
        if model is not None:
            seen.learn("model", _unescaped(model[1]), number)
        info = _INFO.match(line)
        if info is not None:
            _read_labels(info[1], number, seen, name)
    if not seen.figures:
        raise InputError(
            "has no vllm:cache_config_info with num_gpu_blocks",
            where=name,
            hint="give vLLM's /metrics, such as http://localhost:8000/metrics, or a file of it",
        )
    seen.outcome = s.STARTED
    return seen


def _read_labels(text: str, number: int, seen: Seen, name: str) -> None:
    labels = {found[1]: _unescaped(found[2]) for found in _LABEL.finditer(text)}
    for label, figure in (
        ("num_gpu_blocks", s.BLOCKS),
        ("block_size", s.BLOCK_SIZE),
        ("kv_cache_size_tokens", s.CAPACITY),
    ):
        value = labels.get(label, "None")
        if value in ("None", ""):
            continue
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            raise InputError(f"{label} is {value!r}, not a count", where=f"{name}:{number}")
        seen.take(figure, read_printed(value, number))
    concurrency = labels.get("kv_cache_max_concurrency", "None")
    if re.fullmatch(r"\d+(\.\d+)?", concurrency):
        # Printed in full: as good as exact, down to the digits that a double shows.
        seen.take(s.CONCURRENCY, read_printed(concurrency, number))
    for label, option in _OPTIONS.items():
        value = labels.get(label, "None")
        if value not in ("None", ""):
            seen.learn(option, value.lower() if value in ("True", "False") else value, number)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)
