"""Settings out of the lines in which vLLM prints its configuration.

    Initializing a V1 LLM engine (v0.11.0) with config: model='...', dtype=torch.bfloat16, ...
    non-default args: {'model': '...', 'max_model_len': 32768}
    args: Namespace(host=None, model='...', tensor_parallel_size=2, ...)

The lines hold reprs of whole objects, so only the keys that matter are looked for, each with the
shape its value has. Source: vllm 0.2.4 to 0.33.0, config, engine/llm_engine.py, v1/engine/core.py,
entrypoints/utils.py.
"""

from __future__ import annotations

import json
import re

from kvplan.engines.vllm.options.flags import FLAGS
from kvplan.running.seen import Seen

# Key in a configuration line -> vLLM's option.
_CONFIG_KEYS = {
    "dtype": "dtype",
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "kv_cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "chunked_prefill_enabled": "enable_chunked_prefill",
    "quantization": "quantization",
}
_ENGINE = re.compile(r"Initializing an? (?:V([01]) )?LLM engine (?:\(v([^)\s]+)\) )?with config: ")
_ARGS = re.compile(r"non-default args: (\{.*)|\bargs: Namespace\((.*)")
_WORD = r"(?:torch\.)?([\w.:+-]{1,200})"
_DRAFT = re.compile(r"SpeculativeConfig\(([^)]{0,2000})\)")


def is_start(line: str) -> bool:
    """Whether an engine's configuration begins here."""
    return _ENGINE.search(line) is not None


def read_config(line: str, number: int, seen: Seen) -> bool:
    """Note the settings of a configuration line; False for any other line."""
    head = _ENGINE.search(line)
    if head is None:
        return False
    seen.v0 = seen.v0 or head[1] == "0"
    if head[2]:
        seen.learn("version", head[2], number)
    rest = line[head.end() :]
    model = re.search(r"\bmodel=['\"]([^'\"]{1,400})['\"]", rest)
    if model is not None:
        seen.learn("model", model[1], number)
    for key, option in _CONFIG_KEYS.items():
        found = re.search(rf"(?<![\w.]){key}={_WORD}", rest)
        if found is not None:
            _learn(seen, option, found[1], number)
    draft = _DRAFT.search(rest)
    if draft is not None:
        _learn_draft(seen, draft[1], number)
    return True


def read_args(line: str, number: int, seen: Seen) -> bool:
    """Note the options of an argument line; False for any other line."""
    found = _ARGS.search(line)
    if found is None:
        return False
    text = found[1] or found[2]
    for name in ("model", "model_tag", "swap_space", *FLAGS):
        for pattern in (rf"'{name}': ", rf"(?<![\w.]){name}="):
            at = re.search(pattern, text)
            if at is not None:
                value = _value(text[at.end() :])
                if value is not None:
                    _learn(seen, "model" if name == "model_tag" else name, value, number)
                break
    return True


def _learn(seen: Seen, option: str, value: str, number: int) -> None:
    if value.lower() in ("none", "null", ""):
        return
    if value in ("True", "False"):
        value = value.lower()
    seen.learn(option, value, number)


def _value(text: str) -> str | None:
    """The repr that a text begins with: a quoted text, a dict, or a plain word."""
    if text[:1] in "'\"":
        end = text.find(text[0], 1)
        return text[1:end] if end > 0 else None
    if text.startswith("{"):
        return _mapping(text)
    found = re.match(r"(?:torch\.)?([\w.+-]+)", text)
    return found[1] if found else None


def _mapping(text: str) -> str | None:
    """A dict's repr as JSON; None when it is cut off or holds more than plain values."""
    depth = 0
    for index, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            import ast

            try:
                return json.dumps(ast.literal_eval(text[: index + 1]))
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                return None
    return None


def _learn_draft(seen: Seen, inner: str, number: int) -> None:
    method = re.search(r"method='([^']+)'", inner)
    tokens = re.search(r"num_spec_tokens=(\d+)", inner)
    model = re.search(r"model='([^']+)'", inner)
    if method is None or tokens is None:
        return
    config = {"method": method[1], "num_speculative_tokens": int(tokens[1])}
    if model is not None:
        config["model"] = model[1]
    seen.learn("speculative_config", json.dumps(config), number)
