"""What vLLM's own flags say about the request itself: its length, its cache format, its ranks.

`--max-model-len 8192 -tp 2` among the engine's flags is `ctx` 8,192 on 2 ranks. Written into the
request, the logical figure beside the engine's and every search over lengths or ranks see it too.
"""

from __future__ import annotations

from typing import Any

from kvplan.dtypes import find_dtype
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.dtype import VALUES
from kvplan.engines.vllm.options.flags import TABLE, read_options
from kvplan.errors import UsageError

RANKS = {
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
    "decode_context_parallel_size": "dcp",
}


def settled(request: Request) -> Request:
    """The request with those flags in its own fields, and no longer among its options.

    A length beside another ctx stays an option: vLLM plans for the first, and the request's
    sequences have the second. So does `--max-model-len -1`, which only memory decides, and a cache
    format that is vLLM's alone, wherever it was given.

    Raises:
        UsageError: flags that contradict the request, or that vLLM does not have.
    """
    request = _with_own_format(request)
    values = read_options(request.options)
    fields: dict[str, Any] = {}
    for name, field in RANKS.items():
        if name in values:
            fields[field] = ranks(name, values, getattr(request, field))
    length = values.get("max_model_len")
    if length is not None and length > 0 and request.ctx in (None, length):
        fields["ctx"] = length
    dtype = values.get("kv_cache_dtype")
    if dtype is not None and cache_dtype(dtype, request) == dtype and find_dtype(dtype):
        fields["dtype"] = dtype
    if not fields:
        return request
    moved = {name for name, field in RANKS.items() if field in fields}
    moved |= {"max_model_len"} if "ctx" in fields else set()
    moved |= {"kv_cache_dtype"} if "dtype" in fields else set()
    left = {key: text for key, text in request.options.items() if _name(key) not in moved}
    return request.replaced(**fields, options=left)


def _with_own_format(request: Request) -> Request:
    """A format that only vLLM has, given as the request's, is vLLM's flag."""
    own = request.dtype.strip().lower()
    if own == "auto" or own not in VALUES or find_dtype(own) is not None:
        return request
    given = read_options(request.options).get("kv_cache_dtype")
    cache_dtype(given, request)
    return request.replaced(dtype="auto", options={**request.options, "kv_cache_dtype": own})


def _name(key: str) -> str:
    found = TABLE.find(key)
    return found.flag.name if found else key


def ranks(name: str, values: dict[str, Any], asked: int) -> int:
    """Ranks of one kind of parallelism, from its flag or the request.

    Raises:
        UsageError: the two differ, or are below 1.
    """
    flag = values.get(name)
    count = asked if flag is None else flag
    if flag is not None and asked not in (1, flag):
        raise UsageError(f"{name} is {flag} among vllm's options and {asked} in the request")
    if count < 1:
        raise UsageError(f"{name} is {count}, it must be at least 1")
    return int(count)


def cache_dtype(flag: str | None, request: Request) -> str:
    """--kv-cache-dtype, from its flag or the request's dtype.

    Raises:
        UsageError: the two differ, or K and V do.
    """
    if request.dtype_k or request.dtype_v:
        raise UsageError("vllm stores K and V in one format", hint="give --dtype alone")
    asked = request.dtype.strip()
    if flag is None:
        return asked
    if asked.lower() not in ("auto", flag.lower()):
        raise UsageError(f"kv_cache_dtype is {flag} among vllm's options, {asked} in the request")
    return flag
