"""A start of vLLM held against its rules: settle, judge, and say what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.checks import Check
from kvplan.engines.base import LoadModel
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.errors import KvplanError
from kvplan.load import LoadedModel
from kvplan.running.seen import Seen
from kvplan.running.vllm.budget import bare_checks, budget_checks
from kvplan.running.vllm.judge import Judge, Judged
from kvplan.running.vllm.setup import Setup, settle
from kvplan.spec.model import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a comparison found.

    Attributes:
        checks: figures against the rules.
        notes: what they rest on, and likely causes.
        request: the request of the engine's setup, for the prediction beside it.
        engine: `vllm@0.11.0`; None when no rules apply.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    request: Request | None
    engine: str | None


def hold_against_vllm(
    model: LoadedModel | None,
    seen: Seen,
    request: Request,
    version: str | None,
    find_model: LoadModel,
) -> Findings:
    """The figures of one start against vLLM's rules; without a model, against each other."""
    setup = settle(seen, request, version)
    if model is None:
        checks = (*budget_checks(seen), *bare_checks(seen))
        return Findings(checks=checks, notes=setup.notes, request=None, engine=None)
    judge = Judge(model.spec, seen, setup, find_model)
    judged = judge.best()
    notes = [*setup.notes, *_basis(judge, judged)]
    # Sums that hold for any model must not pass for agreement with this one.
    sums = budget_checks(seen) if judged.pool is not None else []
    checks = (*judged.checks, *sums)
    notes += _reach(judge, judged, sums)
    if False in [check.ok for check in judged.checks]:
        words = _causes(judge, judged, model, find_model)
        notes += words
        checks = tuple(
            replace(check, why=f"{check.why}; {words[0]}") if check.ok is False else check
            for check in checks
        )
    return Findings(
        checks=checks,
        notes=tuple(notes),
        request=_request(setup, judged),
        engine=f"vllm@{judged.version}",
    )


def _basis(judge: Judge, judged: Judged) -> list[str]:
    """What the verdict rests on: version, assumed settings, and what the rules make of them."""
    notes = []
    setup = judge.setup
    rules, other = rules_of(judged.version)
    if setup.version is None:
        if judged.agrees:
            fitting = judge.agreeing_versions(judged)
            notes.append(
                f"nothing states vLLM's version; these rules agree: {', '.join(fitting)}"
                if fitting
                else f"nothing states vLLM's version; the rules of {rules.version} were used"
            )
        else:
            notes.append("nothing states vLLM's version; no known rules agree")
    elif other is not None:
        notes.append(other)
    for option, value in judged.answers.items():
        notes.append(
            f"agrees with {option} {value}, which neither the log nor the command line states"
        )
    assumed = None if judged.pool is None else judged.pool.made.settings.gpu
    if not setup.stated("gpu") and "gpu" not in judged.answers and assumed is not None:
        notes.append(
            f"which GPU it is is not stated: kernels as on {assumed.name} were taken;"
            " --gpu NAME says otherwise"
        )
    missing = [
        name
        for name in ("max_model_len", "tensor_parallel_size", "kv_cache_dtype")
        if not setup.stated(name)
    ]
    if missing:
        notes.append(f"not stated, vLLM's defaults apply: {', '.join(missing)}")
    return notes


def _reach(judge: Judge, judged: Judged, sums: list[Check]) -> list[str]:
    """What the verdict does not reach."""
    if judged.pool is None:
        return []
    if sums and not judged.checks:
        return ["only the log's own sums could be checked: no figure depends on the model"]
    if judged.agrees and not judge.anchored and len(judged.pool.made.pool.groups) == 1:
        return [
            "the log does not print the available memory, so nothing ties its blocks to bytes: "
            "another format or model with such blocks would agree too"
        ]
    return []


def _causes(judge: Judge, judged: Judged, model: LoadedModel, find_model: LoadModel) -> list[str]:
    """Likely causes of a disagreement, the first the most telling."""
    named = judge.setup.log_model
    if named is not None:
        other = _load(named, find_model)
        if other is not None and other.name != model.spec.name:
            found = Judge(other, judge.seen, judge.setup, find_model).best()
            if found.agrees:
                return [f"likely cause: the log is of {named}, and its figures agree with that"]
    words = judge.causes(judged)
    if words:
        if len(words) == 1:
            return [f"likely cause: it agrees with {words[0]}"]
        return [f"possible cause: it agrees with {word}" for word in words]
    return [_leftover(judged)]


def _load(name: str, find_model: LoadModel) -> ModelSpec | None:
    try:
        return find_model(name)
    except KvplanError:
        return None


def _leftover(judged: Judged) -> str:
    """What can be said when no single change explains the figures."""
    failed = next(check for check in judged.checks if check.ok is False)
    share = ""
    numbers = (failed.measured, failed.predicted)
    if all(isinstance(number, int | float) for number in numbers) and failed.predicted:
        share = f" ({float(failed.measured or 0) / float(failed.predicted):.3f} times as many)"
    return (
        f"no single other setting explains {failed.name}{share}: another model, several settings, "
        "or a build with rules of its own"
    )


def _request(setup: Setup, judged: Judged) -> Request | None:
    if judged.pool is None:
        return None
    options = {
        name: value
        for name, value in judged.options.items()
        if name not in ("max_model_len", "num_gpu_blocks_override", "kv_cache_memory_bytes")
    }
    options["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
    return Request(ctx=judged.pool.length, options=options)
