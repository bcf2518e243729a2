"""What would free memory for the cache, or need less of it, the largest gain first.

Each lever is one change to the command that was asked about, with the bytes of a rank that it
brings, counted on the middle values. A lever that brings nothing, or less than a hundredth of the
device, is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.budget.vllm.ask import Asked, vllm_budget
from kvplan.budget.vllm.budget import REQUESTED, TOTAL, Budget
from kvplan.budget.vllm.conditions import Conditions
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.load import LoadedModel
from kvplan.plan.fit import Fit
from kvplan.plan.need import needed_bytes

_LEAST = 100  # a lever brings at least one part in so many of the device
_HIGHEST = 0.95
_FEW_TOKENS, _FEW_SEQUENCES = 2048, 256


class Lever(NamedTuple):
    """One change.

    Attributes:
        flag: what to write.
        gain_bytes: more for the cache, or less that the request needs, on one rank.
        saves: the request needs less; else the cache has more.
    """

    flag: str
    gain_bytes: int
    saves: bool = False


def levers_of(
    model: LoadedModel,
    found: Fit,
    budget: Budget,
    given: Conditions,
    device: Device,
    version: str,
    asked: Asked,
    specs: Sequence[str] | None = None,
) -> tuple[Lever, ...]:
    """The levers of one request, by gain."""
    request, left = found.request, budget.available.mid
    levers = []

    def more(flag: str, **options: str) -> None:
        changed = request.replaced(options={**request.options, **options})
        try:
            gained = vllm_budget(model.spec, changed, version, device, asked).available.mid - left
        except UsageError:
            return
        levers.append(Lever(flag, gained))

    if given.tokens > _FEW_TOKENS:
        more(f"--max-num-batched-tokens {_FEW_TOKENS}", max_num_batched_tokens=str(_FEW_TOKENS))
    fewer = max(request.batch, 1)
    if given.sequences > max(_FEW_SEQUENCES, fewer):
        fewer = max(_FEW_SEQUENCES, fewer)
    if fewer < given.sequences:
        more(f"--max-num-seqs {fewer}", max_num_seqs=str(fewer))
    if given.multimodal and given.images:
        more("--language-model-only", language_model_only="true")
    total = budget.line(TOTAL).mid
    if total and budget.line(REQUESTED).mid / total < _HIGHEST - 0.005:
        more(f"--gpu-memory-utilization {_HIGHEST}", gpu_memory_utilization=str(_HIGHEST))
    saved = _by_format(model, found, request, version, specs)
    if saved is not None:
        levers.append(saved)
    least = total // _LEAST
    worth = (lever for lever in levers if lever.gain_bytes >= max(least, 1))
    return tuple(sorted(worth, key=lambda lever: -lever.gain_bytes))


def _by_format(
    model: LoadedModel,
    found: Fit,
    request: Request,
    version: str,
    specs: Sequence[str] | None,
) -> Lever | None:
    """An fp8 cache, where the cache is not in 8 bit already."""
    if found.needed_bytes is None or "8" in (request.dtype or "") or "4" in (request.dtype or ""):
        return None
    options = {**request.options, "kv_cache_dtype": "fp8"}
    try:
        need = needed_bytes(model, request.replaced(dtype="auto", options=options), version, specs)
    except UsageError:
        return None
    if need is None or need >= found.needed_bytes:
        return None
    return Lever("--kv-cache-dtype fp8", found.needed_bytes - need, saves=True)
