"""The setup of a running engine: the command line's word, then the log's, then what is left open.

A setting given on the command line wins over the log's, and a note says so when they differ. What
neither says keeps the default of its version; where a default decides the figures and cannot be
seen in the log, it becomes a `Question` with the answers that are possible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvplan.engines.kit.flags import READ
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.gpus import find_gpu
from kvplan.engines.vllm.facts.versions import NEWEST_V0, VERSIONS, rules_of
from kvplan.engines.vllm.options.flags import FLAGS, TABLE
from kvplan.errors import UsageError
from kvplan.running import seen as s
from kvplan.running.seen import Fact, Seen
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState

_CHARGED_TOKENS = ("2048", "4096", "8192", "16384", "32768")
_MOST_RANKS = 4096
_KERNELS = ("h100", "a100", "rtx5090", "b200")


@dataclass(frozen=True, slots=True)
class Question:
    """A setting that nothing states though the figures depend on it: its possible answers."""

    option: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """vLLM's settings, as far as they are known.

    Attributes:
        version: of the rules; None when nothing says.
        options: vLLM's options by name.
        lines: where the log states an option, 0 for the command line.
        swap_gib: host memory for swapped blocks (V0); the default where nothing states it.
        swap_stated: whether something does.
        notes: what was overridden or could not be read.
        log_model: the model that the log names.
        has_config: the log holds the engine's configuration line.
        overridden: the log's values that the command line's replaced.
    """

    version: str | None
    options: Mapping[str, str]
    lines: Mapping[str, int]
    swap_gib: float
    swap_stated: bool
    notes: tuple[str, ...]
    log_model: str | None
    has_config: bool
    overridden: Mapping[str, str]

    def stated(self, option: str) -> bool:
        """Whether the command line or the log states an option."""
        return option in self.options


def settle(seen: Seen, request: Request, version: str | None) -> Setup:
    """Put the command line and the log together.

    Args:
        seen: what the log said.
        request: the command line's request.
        version: the command line's version, if it names one.
    """
    notes: list[str] = []
    options: dict[str, str] = {}
    lines: dict[str, int] = {}
    overridden: dict[str, str] = {}
    for name, fact in seen.facts.items():
        if name not in FLAGS:
            continue
        try:
            value = TABLE.value(FLAGS[name], fact.value)
            if name.endswith("_parallel_size") and not 1 <= value <= _MOST_RANKS:
                raise UsageError(f"{name} is {value}")
        except UsageError:
            notes.append(f"line {fact.line:,} gives {name} as {fact.value!r}, which was left out")
            continue
        options[name], lines[name] = fact.value, fact.line
    for name, value in _given(request).items():
        known = options.get(name)
        if known is not None and TABLE.value(FLAGS[name], known) != TABLE.value(FLAGS[name], value):
            notes.append(
                f"{name} is {value} on the command line, {known} in the log (line "
                f"{lines[name]:,}): the command line's was used"
            )
            overridden[name] = known
        options[name], lines[name] = value, 0
    if "gpu" in options and not _knows_kernels(options["gpu"]):
        notes.append(f"which kernels vllm takes on {options.pop('gpu')!r} is not known: left open")
    own = seen.facts.get("version")
    found = _version(version, own, seen, notes)
    model = seen.facts.get("model")
    swap = options.get("swap_space")
    return Setup(
        version=found,
        options=options,
        lines=lines,
        swap_gib=float(swap) if swap and re.fullmatch(r"\d{1,6}(\.\d+)?", swap) else 4.0,
        swap_stated=swap is not None,
        notes=tuple(notes),
        log_model=model.value if model else None,
        has_config="dtype" in seen.facts,
        overridden=overridden,
    )


def _knows_kernels(gpu: str) -> bool:
    try:
        find_gpu(gpu)
    except UsageError:
        return False
    return True


def _given(request: Request) -> dict[str, str]:
    """The command line's settings by vLLM's names; numbers of 1 and `auto` are its defaults."""
    given: dict[str, str] = {}
    for name, text in request.options.items():
        found = TABLE.find(name)
        if found is None or found.flag.effect != READ:
            raise TABLE.unknown(name)
        flag = found.flag
        given[flag.name] = text if found.positive else str(not TABLE.value(flag, text)).lower()
    if request.ctx is not None:
        given["max_model_len"] = str(request.ctx)
    if request.dtype.strip().lower() != "auto":
        given["kv_cache_dtype"] = request.dtype
    for name, ranks in (
        ("tensor_parallel_size", request.tp),
        ("pipeline_parallel_size", request.pp),
        ("data_parallel_size", request.dp),
        ("decode_context_parallel_size", request.dcp),
    ):
        if ranks != 1:
            given[name] = str(ranks)
    return given


def _version(asked: str | None, own: Fact | None, seen: Seen, notes: list[str]) -> str | None:
    stated = own.value if own is not None else None
    if asked is not None:
        rules_of(asked)
        if stated is not None and not stated.startswith(asked.removeprefix("v")):
            notes.append(f"the log says vllm {stated}: the command line's {asked} was used")
        stated = asked
    if stated is not None:
        try:
            number = rules_of(stated)[0].version
        except UsageError:
            notes.append(f"the log's version {stated!r} is none: left open")
            stated = None
        else:
            if seen.v0 and not _is_v0(number):
                notes.append(
                    f"the log's lines are those of vLLM's first engine (V0), which {stated} "
                    f"fell back to: the rules of {NEWEST_V0} apply"
                )
                return NEWEST_V0
            if stated.startswith("0.1.dev"):
                notes.append(f"vllm {stated} is a build between releases: its version is left open")
                return None
    if stated is None and seen.v0:
        return NEWEST_V0
    return stated


def _is_v0(version: str) -> bool:
    return rules_of(version)[0].is_v0


def questions_of(setup: Setup, spec: ModelSpec, seen: Seen) -> tuple[Question, ...]:
    """What is open and matters for this model; the default first in each."""
    found = []
    if setup.version is None:
        found.append(Question("version", versions_of(seen)))
    every = list(spec.states())
    recurrent = any(isinstance(state, RecurrentState) for state in every)
    # A state that is bound to the tokens in flight: a window, a chunk, an encoder's tokens.
    charged = any(
        isinstance(
            state,
            kept.SlidingAttention
            | kept.ChunkedAttention
            | kept.CrossAttention
            | kept.CompressedLatent,
        )
        for state in every
    )
    if recurrent and not setup.stated("enable_prefix_caching"):
        found.append(Question("enable_prefix_caching", ("", "true", "false")))
    if charged and not setup.stated("max_num_batched_tokens"):
        found.append(Question("max_num_batched_tokens", ("", *_CHARGED_TOKENS)))
    if charged and not setup.stated("async_scheduling"):
        found.append(Question("async_scheduling", ("", "false")))
    if recurrent and not setup.stated("gpu"):
        found.append(Question("gpu", ("", *_KERNELS[1:])))
    # A configuration line always names drafting, or that there is none.
    if spec.draft_layers and not setup.stated("speculative_config") and not setup.has_config:
        drafts = (json.dumps({"method": "mtp", "num_speculative_tokens": n}) for n in (1, 2, 3))
        found.append(Question("speculative_config", ("", *drafts)))
    return tuple(found)


def versions_of(seen: Seen) -> tuple[str, ...]:
    """One release per set of rules, newest first, as far as the lines fit."""
    found: dict[object, str] = {}
    for version in VERSIONS:
        rules = rules_of(version)[0]
        if rules.is_v0 != seen.v0:
            continue
        key = tuple(getattr(rules, name) for name in rules.__slots__ if name != "version")
        found.setdefault(key, version)
    return tuple(found.values())


def combinations(questions: Iterable[Question], limit: int) -> list[dict[str, str]]:
    """Answers to all questions, those with the fewest departures from defaults first.

    An empty answer is the default. The version is no departure: nothing says it.
    """
    found: list[dict[str, str]] = [{}]
    for question in questions:
        found = [
            {**chosen, question.option: answer} for chosen in found for answer in question.answers
        ]

    def departures(chosen: dict[str, str]) -> int:
        return sum(1 for name, answer in chosen.items() if answer and name != "version")

    found.sort(key=departures)
    return found[:limit]


def refused(seen: Seen) -> bool:
    """Whether the engine said it would not start."""
    return seen.outcome in (s.TOO_LONG, s.NO_MEMORY)
