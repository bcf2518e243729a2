"""Pools of engines whose layouts kvplan does not have yet, held against the logical figure.

What a model must keep per token on one rank, times the tokens of the pool. Agreement means that the
pool is the formula's within the printed rounding and one page. Where every layer keeps every token
anything else disagrees; where windows or states have pools of their own, it is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.checks import Check, undecided
from kvplan.dtypes import DType, find_dtype, parse_dtype
from kvplan.engines.request import Request, model_dtype
from kvplan.errors import UsageError
from kvplan.running import seen as s
from kvplan.running.printed import Printed
from kvplan.running.seen import Seen
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec
from kvplan.units import GIB, MIB

_BASIS = "logical figure, kvplan does not know this engine's layout"


def hold_against_logical(spec: ModelSpec, seen: Seen, request: Request) -> tuple[Check, ...]:
    """Every pool of a start beside what the model must keep.

    Raises:
        UsageError: the cache's format is not known.
    """
    if seen.engine == "llamacpp":
        if "kv" in seen.pools:  # lines of old releases: one size, K and V in 16 bits
            half = parse_dtype(request.dtype if request.dtype != "auto" else "f16", "--dtype")
            return tuple(_ollama(spec, seen, request, half, "llama.cpp's cache"))
        return tuple(_llamacpp(spec, seen))
    tp = int(_fact(seen, "tensor_parallel_size", str(request.tp)))
    if _fact(seen, "enable_dp_attention", "False") == "True":
        tp = max(1, tp // int(_fact(seen, "data_parallel_size", "1")))
    dtype = _dtype(spec, seen, request)
    if seen.engine == "ollama":
        return tuple(_ollama(spec, seen, request, dtype))
    return tuple(_paged(spec, seen, tp, dtype))


def _fact(seen: Seen, name: str, default: str) -> str:
    fact = seen.facts.get(name)
    return fact.value if fact is not None else default


def _dtype(spec: ModelSpec, seen: Seen, request: Request) -> DType:
    text = request.dtype.strip().lower()
    if text == "auto":
        text = _fact(seen, "element", _fact(seen, "kv_cache_dtype", "auto"))
    if text not in ("auto", "uint8"):
        return parse_dtype(text, "kv_cache_dtype")
    own = model_dtype(spec)
    if own is None or text == "uint8":
        raise UsageError("the log does not name the cache's format", hint="give --dtype")
    return own


def _every(spec: ModelSpec) -> list[kept.State]:
    """The states of every layer."""
    return [state for name in spec.layers for state in spec.kinds[name]]


def _per_token(spec: ModelSpec, tp: int, k: DType, v: DType) -> tuple[int, int, bool]:
    """(bytes of K, of V) of one token on one rank, and whether every layer keeps every token."""
    key = value = 0
    uniform = True
    for state in _every(spec):
        if isinstance(state, kept.LatentAttention):
            key += k.vectors_bytes(1, state.kv_lora_rank + state.qk_rope_head_dim)
        elif isinstance(state, kept.FullAttention):
            heads = max(1, state.kv_heads // tp)
            key += k.vectors_bytes(heads, state.head_dim)
            value += v.vectors_bytes(heads, state.value_dim)
        elif not isinstance(state, kept.SharedCache):
            uniform = False
    return key, value, uniform


def _paged(spec: ModelSpec, seen: Seen, tp: int, dtype: DType) -> Iterable[Check]:
    capacity = seen.figures.get(s.CAPACITY)
    key, value, uniform = _per_token(spec, tp, dtype, dtype)
    if capacity is None or not seen.pools:
        yield undecided("pool_bytes", "the log states tokens without their bytes")
        return
    tokens, page = int(capacity.value), int(_fact(seen, "page_size", "64"))
    for name, bytes_each in (("k", key), ("v", value), ("kv", key + value)):
        printed = seen.pools.get(name)
        if printed is not None:
            why = f"{bytes_each:,} bytes per token and rank x {tokens:,} tokens"
            yield _pool(
                f"{name}_bytes", bytes_each * tokens, printed.scaled(GIB), page * bytes_each, why,
                uniform,
            )  # fmt: skip
    per_token = seen.figures.get("bytes_per_token")
    if per_token is not None:
        why = "bytes per token and rank"
        yield _pool("bytes_per_token", key + value, per_token, 0, why, uniform)
    for name in ("swa_pool", "conv", "states"):
        if name in seen.pools:
            measured = round(seen.pools[name].value * GIB)
            why = f"windows and states are pools of their own; {_BASIS}"
            yield undecided(f"{name}_bytes", why, measured=measured)


def _llamacpp(spec: ModelSpec, seen: Seen) -> Iterable[Check]:
    full = [st for st in _every(spec) if isinstance(st, kept.FullAttention | kept.LatentAttention)]
    local = [st for st in _every(spec) if isinstance(st, kept.SlidingAttention)]
    index = 0
    while f"k{index}" in seen.pools:
        layers = seen.figures.get(f"layers{index}")
        count = int(layers.value) if layers else len(full)
        chosen = full if count == len(full) and (index == 0 or not local) else local
        cells_seen = seen.figures.get(f"cells{index}")
        cells = int(cells_seen.value) if cells_seen else int(_fact(seen, "n_ctx", "0"))
        for side in ("k", "v"):
            dtype = find_dtype(_fact(seen, f"{side}{index}_type", ""))
            if dtype is None or not cells or count != len(chosen):
                yield undecided(
                    f"{side}{index}_bytes", f"cells, layers or format are not clear; {_BASIS}"
                )
                continue
            each = sum(_side(state, side, dtype) for state in chosen)
            why = f"{each:,} bytes per cell of {count} layers x {cells:,} cells"
            printed = seen.pools[f"{side}{index}"].scaled(MIB)
            yield _pool(f"{side}{index}_bytes", each * cells, printed, 0, why, True)
        index += 1
    if "recurrent" in seen.pools:
        measured = round(seen.pools["recurrent"].value * MIB)
        why = f"llama.cpp keeps states in its own shapes; {_BASIS}"
        yield undecided("recurrent_bytes", why, measured=measured)


def _side(state: kept.State, side: str, dtype: DType) -> int:
    if isinstance(state, kept.LatentAttention):
        # The latent is one K row; V is read from it.
        return (
            dtype.vectors_bytes(1, state.kv_lora_rank + state.qk_rope_head_dim)
            if side == "k"
            else 0
        )
    assert isinstance(state, kept.HeadState)
    return dtype.vectors_bytes(state.kv_heads, state.head_dim if side == "k" else state.value_dim)


def _ollama(
    spec: ModelSpec,
    seen: Seen,
    request: Request,
    dtype: DType,
    whose: str = "Ollama's own estimate",
) -> Iterable[Check]:
    tokens = request.ctx or int(_fact(seen, "n_ctx", "0"))
    printed = seen.pools.get("kv")
    if printed is None or not tokens:
        yield undecided(
            "kv_bytes", "the log does not say how many tokens its cache holds: give --ctx"
        )
        return
    key, value, uniform = _per_token(spec, 1, dtype, dtype)
    why = f"{key + value:,} bytes per token x {tokens:,} tokens, {whose}"
    yield _pool("kv_bytes", (key + value) * tokens, printed.scaled(MIB), 0, why, uniform)


def _pool(name: str, predicted: int, printed: Printed, page: int, why: str, decides: bool) -> Check:
    low, high = printed.low - page, printed.high
    ok = low - 1 <= predicted <= high + 1
    measured = round(printed.value)
    return Check(
        name=name, predicted=predicted, measured=measured, difference=measured - predicted,
        tolerance=round(printed.step / 2) + page + 1,
        ok=True if ok else False if decides else None, why=f"{why}; {_BASIS}",
    )  # fmt: skip
