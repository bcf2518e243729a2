"""One setup judged, open questions answered, and a disagreement's likely cause.

A question that nothing answers (was prefix caching on? which release?) is tried with each possible
answer, the default first: agreement then names the answer it rests on. A setting that the command
line or the log states is never changed to make figures agree; when they do not, the search changes
one stated setting at a time, and a change after which every figure fits is the likely cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvplan.checks import Check, agreement, undecided
from kvplan.engines.base import LoadModel
from kvplan.engines.vllm.facts.versions import VERSIONS, rules_of
from kvplan.engines.vllm.options.flags import FLAGS, TABLE
from kvplan.errors import UsageError
from kvplan.running import seen as s
from kvplan.running.seen import Seen
from kvplan.running.vllm.compare import checks_of
from kvplan.running.vllm.pool import PoolOf, build_pool
from kvplan.running.vllm.possible import given_of
from kvplan.running.vllm.setup import Setup, combinations, questions_of, versions_of
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState

_MOST_COMBINATIONS = 2000
_LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072)
_KERNELS = ("a100", "h100", "b200", "rtx5090")  # one of each generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One setup and what came of it.

    Attributes:
        version: whose rules.
        options: vLLM's options.
        answers: answers to open questions that are no defaults.
        pool: its pool; None when there is none.
        checks: figures against it.
    """

    version: str
    options: Mapping[str, str]
    answers: Mapping[str, str]
    pool: PoolOf | None
    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Something was compared and nothing disagreed."""
        return agreement(self.checks)

    @property
    def evidence(self) -> int:
        """Figures that agree; whether the engine started proves little and does not count."""
        return sum(1 for check in self.checks if check.ok and check.name != "starts")

    @property
    def weight(self) -> tuple[int, int]:
        """Fewest failures, then most agreements."""
        verdicts = [check.ok for check in self.checks]
        return 99 if self.pool is None else verdicts.count(False), -verdicts.count(True)


class Judge:
    """Judges setups of one start of one model."""

    def __init__(self, spec: ModelSpec, seen: Seen, setup: Setup, find_model: LoadModel) -> None:
        self.spec, self.seen, self.setup = spec, seen, setup
        self._find_model = find_model

    def one(
        self, version: str, options: Mapping[str, str], answers: Mapping[str, str],
        spec: ModelSpec | None = None,
    ) -> Judged:  # fmt: skip
        """One setup: the stated options, with answers or changes put in."""
        merged = {**options, **answers}
        try:
            pool = build_pool(spec or self.spec, version, merged, self._find_model)
        except UsageError as error:
            pool = f"vllm {version} cannot run it so: {error.message}"
        if isinstance(pool, str):
            checks: tuple[Check, ...] = (undecided("pool", pool),)
            return Judged(
                version=version, options=merged, answers=answers, pool=None, checks=checks
            )
        override = merged.get("num_gpu_blocks_override")
        cache = merged.get("kv_cache_memory_bytes")
        given = given_of(
            self.seen,
            int(override) if override else None,
            TABLE.value(FLAGS["kv_cache_memory_bytes"], cache) if cache else None,
            self.setup.swap_gib,
            swap_stated=self.setup.swap_stated,
        )
        return Judged(
            version=version,
            options=merged,
            answers=answers,
            pool=pool,
            checks=checks_of(pool, self.seen, given),
        )

    def best(self) -> Judged:
        """The setup that agrees with the fewest departures from defaults, else the closest."""
        questions = questions_of(self.setup, self.spec, self.seen)
        closest: Judged | None = None
        for answers in combinations(questions, _MOST_COMBINATIONS):
            version = self.setup.version or answers.get("version") or VERSIONS[0]
            chosen = {k: v for k, v in answers.items() if v and k != "version"}
            if chosen and not self._telling:
                break  # sorted by departures: no later one could be accepted
            judged = self.one(version, self.setup.options, chosen)
            # One figure alone may fit by chance once settings are chosen to make it fit.
            if judged.agrees and (not chosen or judged.evidence > 1 or self.anchored):
                return judged
            # Only the defaults stand for a disagreement: other answers would hide what is wrong.
            if closest is None or (not chosen and judged.weight < closest.weight):
                closest = judged
        assert closest is not None
        return closest

    @property
    def _telling(self) -> bool:
        """Enough is printed to tell a fitting answer from chance."""
        counted = self.seen.figures.keys() - {s.AVAILABLE, s.NEEDED_AVAILABLE}
        return self.anchored or len(counted) > 1

    @property
    def anchored(self) -> bool:
        """The memory is printed, so figures are bound to bytes."""
        return bool({s.AVAILABLE, s.NEEDED_AVAILABLE} & self.seen.figures.keys())

    def agreeing_versions(self, judged: Judged) -> list[str]:
        """The releases whose rules give the same verdict, when nothing states one."""
        return [
            version
            for version in versions_of(self.seen)
            if self.one(version, self.setup.options, judged.answers).agrees
        ]

    def causes(self, judged: Judged, *, most: int = 5) -> list[str]:
        """What else would make every figure fit, what needs least first, one change at a time."""
        found: list[tuple[int, str]] = []
        extras = self._open_answers() if self._telling else [{}]
        for words, version, changes in self._changes(judged):
            options = {k: v for k, v in judged.options.items() if changes.get(k, v) != ""}
            put = {k: v for k, v in changes.items() if v != ""}
            for extra in extras:
                tried = self.one(version, options, {**extra, **put})
                if tried.agrees and (not extra or tried.evidence > 1 or self.anchored):
                    also = "".join(f" and {name} {value}" for name, value in extra.items())
                    found.append((len(extra), f"{words}{also}"))
                    break
            if len(found) == most:
                break
        return [words for _, words in sorted(found, key=lambda one: one[0])]

    def _open_answers(self) -> list[dict[str, str]]:
        """No answer, and each single answer to a question that nothing answers."""
        found: list[dict[str, str]] = [{}]
        for question in questions_of(self.setup, self.spec, self.seen):
            if question.option != "version":
                found += [{question.option: answer} for answer in question.answers if answer]
        return found

    def _changes(self, judged: Judged) -> Iterator[tuple[str, str, dict[str, str]]]:
        version, options = judged.version, judged.options
        every = list(self.spec.states())

        def now(name: str) -> str:
            return str(options.get(name, FLAGS[name].default))

        for name, value in self.setup.overridden.items():
            yield f"{name} {value}, as the log says", version, {name: value}
        for tp in ("1", "2", "4", "8", "16", "32"):
            if tp != now("tensor_parallel_size"):
                yield _ranks_words(self.spec, tp), version, {"tensor_parallel_size": tp}
        for name in ("auto", "fp8", "nvfp4"):
            if _element(name) != _element(now("kv_cache_dtype")):
                shown = "the model's own format" if name == "auto" else name
                yield (
                    f"a cache in {shown} (kv_cache_dtype {name})",
                    version,
                    {"kv_cache_dtype": name},
                )
        if now("dtype") != "float32":
            yield "a model run in float32", version, {"dtype": "float32", "kv_cache_dtype": ""}
        for pp in ("2", "4", "8"):
            if pp != now("pipeline_parallel_size"):
                yield f"{pp} pipeline stages", version, {"pipeline_parallel_size": pp}
        yield from self._draft_changes(version, options)
        if any(isinstance(state, RecurrentState) for state in every):
            for value, words in (("true", "on"), ("false", "off")):
                if value != now("enable_prefix_caching"):
                    words = f"prefix caching {words} (it decides how many states a request holds)"
                    yield words, version, {"enable_prefix_caching": value}
        local = (kept.SlidingAttention, kept.ChunkedAttention)
        if any(isinstance(state, local) for state in every):
            words = "windows stored like full attention (disable_hybrid_kv_cache_manager)"
            yield words, version, {"disable_hybrid_kv_cache_manager": "true"}
            for tokens in ("512", "1024", "2048", "4096", "8192", "16384", "32768"):
                if tokens != now("max_num_batched_tokens"):
                    yield (
                        f"max_num_batched_tokens {tokens} (windows are charged for it)",
                        version,
                        {"max_num_batched_tokens": tokens},
                    )
        if any(isinstance(state, kept.LatentAttention) for state in every):
            words = "latents stored as whole heads (VLLM_MLA_DISABLE)"
            yield words, version, {"VLLM_MLA_DISABLE": "1"}
        for size in ("16", "32", "64", "128"):
            if size != now("block_size"):
                yield f"blocks of {size} tokens", version, {"block_size": size}
        if "max_model_len" not in self.seen.facts:  # else the figures are about that length
            lengths = {*_LENGTHS, *((self.spec.max_context,) if self.spec.max_context else ())}
            for length in sorted(lengths):
                if str(length) != now("max_model_len"):
                    yield f"max_model_len {length:,}", version, {"max_model_len": str(length)}
        if "gpu" not in self.seen.facts:
            for gpu in _KERNELS:
                if gpu != now("gpu"):
                    yield f"the kernels of a {gpu} (--gpu)", version, {"gpu": gpu}
        for other in versions_of(self.seen):
            if other != rules_of(version)[0].version:
                words = _difference(version, other, self.spec)
                yield f"the rules of vllm {other}: {words}", other, {}

    def _draft_changes(
        self, version: str, options: Mapping[str, str]
    ) -> Iterator[tuple[str, str, dict[str, str]]]:
        if options.get("speculative_config"):
            yield "no speculative decoding", version, {"speculative_config": ""}
        if not self.spec.draft_layers:
            return
        for tokens in (1, 2, 3, 4):
            config = json.dumps({"method": "mtp", "num_speculative_tokens": tokens})
            if config != options.get("speculative_config"):
                words = f"multi-token prediction with {tokens} tokens (its layers are cached too)"
                yield words, version, {"speculative_config": config}


def _element(name: str) -> str:
    return "fp8" if name.startswith("fp8") else "auto" if name.endswith("16") else name


def _ranks_words(spec: ModelSpec, tp: str) -> str:
    heads = [state.kv_heads for state in spec.states() if isinstance(state, kept.HeadState)]
    if heads and min(heads) < int(tp):
        return f"tensor_parallel_size {tp} ({min(heads)} KV heads, replicated beyond that)"
    return f"tensor_parallel_size {tp}"


def _difference(version: str, other: str, spec: ModelSpec) -> str:
    """What changed between two releases, of what can concern a model like this."""
    first, second = rules_of(version)[0], rules_of(other)[0]
    every = list(spec.states())
    windows = any(isinstance(one, kept.SlidingAttention | kept.ChunkedAttention) for one in every)
    states = any(isinstance(one, RecurrentState) for one in every)
    if windows and first.hybrid_groups != second.hybrid_groups:
        return "windows got groups of their own in 0.9.1"
    if first.capacity != second.capacity:
        return "what its log line calls tokens changed in 0.9.1 and 0.20.1"
    if windows and first.in_flight_batches != second.in_flight_batches:
        return "windows are charged for all batches in flight since 0.26"
    if states and first.checkpoint_kinds != second.checkpoint_kinds:
        return "which states take a block for checkpoints changed in 0.29, 0.32 and 0.33"
    if (windows or states) and first.close_bucket_ratio != second.close_bucket_ratio:
        return "how wide groups are changed in 0.12 and 0.18"
    if first.fit_check != second.fit_check:
        return "what the start-up check charges changed"
    return "defaults changed"
