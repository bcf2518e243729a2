"""From a request to vLLM's budget: which settings of the engine its lines depend on.

Every default is the release's own, as the engine's room has it; here stands only what the cache
does not depend on and the budget does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.budget.vllm.budget import (
    ACTIVATIONS,
    GRAPHS,
    KV,
    NON_TORCH,
    WEIGHTS,
    Budget,
    make_budget,
)
from kvplan.budget.vllm.conditions import Conditions
from kvplan.budget.weights import Split, weights_of_rank
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import Rules, rules_of
from kvplan.engines.vllm.options.flags import read_options
from kvplan.engines.vllm.options.settings import Settings, read_settings
from kvplan.errors import UsageError
from kvplan.estimate import Estimate, exactly
from kvplan.hardware.device import Device
from kvplan.spec.model import ModelSpec


class Asked(NamedTuple):
    """What the user knows beside the request.

    Attributes:
        named: the name that the model was asked for by.
        file_bytes: bytes of all weights in the checkpoint's files, where those are at hand.
        known: lines of the budget that need no estimate.
        total: the device's total where the user or a log states it.
        fraction: gpu_memory_utilization of a log.
        reserve: bytes to leave free.
    """

    named: str | None = None
    file_bytes: int | None = None
    known: Mapping[str, Estimate] = {}
    total: Estimate | None = None
    fraction: float | None = None
    reserve: int = 0


def vllm_budget(
    spec: ModelSpec, request: Request, version: str, device: Device, asked: Asked
) -> Budget:
    """The budget of the fullest rank.

    Raises:
        UsageError: the device's memory, or the weights, are not known.
    """
    rules, _ = rules_of(version)
    values = read_options(request.options)
    given = conditions_of(spec, request, rules, device, version)
    total = asked.total or device.total()
    if total is None and KV in asked.known:
        return _printed_only(asked)
    if total is None:
        raise UsageError(
            f"no source says how much memory {device.product} has",
            hint="give it with --gpu-memory, such as 24GiB",
        )
    weights = asked.known.get(WEIGHTS) or _weights(spec, request, given, asked, values)
    fraction, origin = _fraction(values, asked, rules)
    known = dict(asked.known)
    if given.tp == 1 and NON_TORCH not in known and asked.fraction is None and device.slice_of:
        known[NON_TORCH] = Estimate(0, 2**27, 2**29, "one tensor rank")
    return make_budget(
        given, total=total, fraction=fraction, fraction_origin=origin, weights=weights,
        known=known, reserve=asked.reserve,
    )  # fmt: skip


def _printed_only(asked: Asked) -> Budget:
    """A log that says what was left, of a device that nobody names: that line alone counts."""
    lines = [(name, asked.known[name]) for name in (WEIGHTS, ACTIVATIONS, NON_TORCH, KV)
             if name in asked.known]  # fmt: skip
    nothing = exactly(0, "not known")
    return Budget(tuple(lines), asked.known.get(GRAPHS, nothing), nothing)


def conditions_of(
    spec: ModelSpec, request: Request, rules: Rules, device: Device, version: str
) -> Conditions:
    """What the lines depend on."""
    settings = read_settings(request, rules)
    values = read_options(request.options)
    length = settings.length if settings.length and settings.length > 0 else None
    length = length or spec.max_context or 4096
    tokens, _ = settings.batched_tokens_for(length, chunked_prefill=True)
    parts = [int(part) for part in version.split(".")[:2] if part.isdigit()] or [0]
    return Conditions(
        version=(parts[0], parts[1] if len(parts) > 1 else 0),
        spec=spec,
        device=device,
        tp=settings.tp,
        pp=settings.pp,
        sequences=sequences_of(settings),
        tokens=tokens,
        eager=bool(values.get("enforce_eager", False)),
        images=not settings.language_model_only and not _no_images(values),
        pooling=str(values.get("runner", "")) == "pooling",
        element_bytes=4 if settings.model_dtype in ("float32", "float") else 2,
    )


def sequences_of(settings: Settings) -> int:
    """max_num_seqs, given or by default."""
    return settings.seqs


def _no_images(values: Mapping[str, Any]) -> bool:
    """`--limit-mm-per-prompt` allows none of anything."""
    limits = values.get("limit_mm_per_prompt")
    return isinstance(limits, Mapping) and bool(limits) and not any(limits.values())


def _fraction(values: Mapping[str, Any], asked: Asked, rules: Rules) -> tuple[float, str]:
    given = values.get("gpu_memory_utilization")
    if given is not None:
        if not 0 < given <= 1:  # nan too
            raise UsageError(f"gpu_memory_utilization is {given}, it must be above 0 and at most 1")
        return float(given), "--gpu-memory-utilization"
    if asked.fraction is not None:
        return asked.fraction, "the log"
    return rules.gpu_memory_utilization, f"vllm {rules.version}'s default"


def _weights(
    spec: ModelSpec,
    request: Request,
    given: Conditions,
    asked: Asked,
    values: Mapping[str, Any],
) -> Estimate:
    experts = given.tp * request.dp if values.get("enable_expert_parallel") else 1
    found = weights_of_rank(
        spec,
        Split(given.tp, given.pp, experts),
        named=asked.named,
        flag=values.get("quantization"),
        dtype=str(values.get("dtype", "auto")),
        file_bytes=asked.file_bytes,
        towers=given.images,
    )
    if found is None:
        missing = "the sizes of its layers" if spec.parameters is None else "how they are quantised"
        raise UsageError(
            f"the weights of {spec.name} are not known: nothing says {missing}",
            hint="give --weights-bytes (vllm prints it as 'Model loading took'), the folder with "
            "the checkpoint's files, or --from-log",
        )
    return found


def exact_line(amount: int, flag: str) -> Estimate:
    """A line that a flag of kvplan states."""
    return exactly(amount, flag)
