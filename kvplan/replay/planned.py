"""From vLLM's plan of a model to the facts of a replay: the only file that knows its types.

Groups, block sizes, windows and states are those that the engine's planning formed for the model
and the options, so nothing is said twice. What the scheduler alone reads (`--watermark`,
`--long-prefill-token-threshold`, ...) comes beside them in `SchedulerOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.base import no_other_model
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.engines.vllm.layers.model import ALIGN, caches_prefixes
from kvplan.engines.vllm.layers.specs import (
    CacheSpec,
    ChunkedSpec,
    FullSpec,
    Load,
    SlidingLatentSpec,
    SlidingSpec,
    StateSpec,
)
from kvplan.engines.vllm.options.asked import settled
from kvplan.engines.vllm.options.settings import Settings, read_settings
from kvplan.engines.vllm.planning import Planned as Plan
from kvplan.engines.vllm.planning import prepare
from kvplan.engines.vllm.pool.capacity import plan_pool
from kvplan.engines.vllm.pool.group import Group as PlannedGroup
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.replay import switches as by_version
from kvplan.replay.facts import CHUNKED, FULL, SLIDING, STATE, Facts, Group
from kvplan.spec.model import ModelSpec

DEFAULT, ENDS, ALL = "default", "ends", "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Options that change no group, only who runs when.

    Attributes:
        long_prefill_token_threshold, watermark, reserve_full: see `Facts`.
        retention: `ends` for the ends of prompts, `all`, or `default` for what the version has.
    """

    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    retention: str = DEFAULT
    reserve_full: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A deployment that can be replayed.

    Attributes:
        facts: for the replay.
        version: of the engine whose rules these are.
        kv_cache_dtype: the cache's format.
        block_size: tokens of a block of the primary attention.
        notices: what was settled otherwise than asked.
    """

    facts: Facts
    version: str
    kv_cache_dtype: str
    block_size: int
    notices: tuple[Notice, ...] = ()


def planned(
    spec: ModelSpec,
    request: Request,
    version: str,
    scheduler: SchedulerOptions,
    *,
    available_bytes: int | None,
    num_blocks: int | None,
) -> Planned:
    """The facts of a model under an engine's options.

    Args:
        available_bytes: what one rank has for its cache; or
        num_blocks: blocks of the pool, the null block included.

    Raises:
        UsageError: the engine would not start, or does what is not modelled.
    """
    rules, other = rules_of(version)
    release = by_version.release_of(rules.version)
    if release < by_version.OLDEST:
        raise UsageError(
            f"replay knows vllm's scheduler from 0.19 on, not {rules.version}",
            hint="give --engine vllm@0.33.0, or another version from 0.19.0 on",
        )
    settings = read_settings(settled(request), rules)
    switches = by_version.switches_of(rules.version)
    if scheduler.watermark and not switches.has_watermark:
        raise UsageError("vllm has --watermark from 0.24.0 on")
    _check_modelled(settings.pp, settings.dcp, settings.speculation is not None)
    notices = [Notice("engine-version", other)] if other else []
    try:
        made = _prepared(spec, settings, notices)
    except Refused as refused:
        raise UsageError(f"vllm {rules.version} would not start: {refused}") from refused
    if not made.pool.groups:
        raise UsageError(f"{spec.name} keeps no cache, so there is nothing to replay")
    if num_blocks is None:
        assert available_bytes is not None
        num_blocks = _pool(made, available_bytes)
    caching = caches_prefixes(made.model)
    facts = Facts(
        groups=tuple(_group(group, made.load) for group in made.pool.groups),
        num_blocks=num_blocks,
        bytes_per_block=max(made.pool.bytes_per_block(stage) for stage in range(made.pool.stages)),
        max_model_len=made.load.length,
        max_num_seqs=settings.seqs,
        max_num_batched_tokens=made.load.batched,
        prefix_caching=caching,
        async_scheduling=settings.async_scheduling,
        switches=switches,
        long_prefill_token_threshold=scheduler.long_prefill_token_threshold,
        watermark=scheduler.watermark,
        retention=_retention(scheduler.retention, release),
        reserve_full=scheduler.reserve_full,
    )
    if num_blocks < 2:
        raise UsageError(f"a pool of {num_blocks} blocks serves nobody: one is the null block")
    _check_states(facts)
    name = made.model.cache.name
    return Planned(
        facts=facts,
        version=rules.version,
        kv_cache_dtype=made.model.dtype if name == "auto" else name,
        block_size=made.choice.size,
        notices=tuple(notices),
    )


def _prepared(spec: ModelSpec, settings: Settings, notices: list[Notice]) -> Plan:
    """The plan; more sequences than tokens of a step are replayed, though vLLM refuses them."""
    try:
        return prepare(spec, settings, no_other_model)
    except Refused as refused:
        if refused.refusal.code != "batched-tokens-below-max-num-seqs":
            raise
        message = f"vllm {settings.rules.version} itself would not start: {refused}"
        notices.append(Notice("would-not-start", message))
        return prepare(spec, replace(settings, max_seqs=None), no_other_model)


def _pool(made: Plan, available_bytes: int) -> int:
    settings = made.settings
    found = plan_pool(
        made.pool, made.load,
        settings.cache_bytes if settings.cache_bytes is not None else available_bytes,
        override=settings.blocks_override, auto_length=made.length.auto,
    )  # fmt: skip
    if found.num_blocks is None:
        assert found.refusal is not None
        raise UsageError(
            f"vllm {settings.rules.version} would not start: {found.refusal.message}",
            hint="give more memory, or a smaller --max-model-len",
        )
    return found.num_blocks


def _group(group: PlannedGroup, load: Load) -> Group:
    first = group.members[0].spec
    if any(run.spec.tokens_per_row > 1 for run in group.members):
        raise UsageError("replay does not model rows that several tokens share")
    return Group(
        kind=_kind(first),
        block_size=first.tokens_per_block(load.length),
        window=first.window if isinstance(first, SlidingSpec) else 0,
        chunk=first.chunk if isinstance(first, ChunkedSpec) else 0,
        checkpoints=(
            load.states == ALIGN and isinstance(first, StateSpec) and first.checkpoint_blocks > 0
        ),
        identity=tuple(run.spec for run in group.members),
    )


def _kind(spec: CacheSpec) -> str:
    if isinstance(spec, FullSpec):
        return FULL
    if isinstance(spec, SlidingSpec) and not isinstance(spec, SlidingLatentSpec):
        return SLIDING
    if isinstance(spec, ChunkedSpec):
        return CHUNKED
    if isinstance(spec, StateSpec):
        return STATE
    raise UsageError(f"replay does not model groups of kind {spec.kind}")


def _retention(asked: str, release: tuple[int, int]) -> int | None:
    if asked == DEFAULT:
        return 0 if release >= by_version.RETENTION_ZERO else None
    return 0 if asked == ENDS else None


def _check_modelled(pp: int, dcp: int, speculates: bool) -> None:
    refused = [
        name
        for name, there in (
            ("speculative decoding", speculates),
            ("pipeline parallelism", pp > 1),
            ("decode context parallelism", dcp > 1),
        )
        if there
    ]
    if refused:
        raise UsageError(f"replay does not model {' and '.join(refused)}")


def _check_states(facts: Facts) -> None:
    """States whose block is larger than a hash would be hit in their middle."""
    if not facts.aligned_states:
        return
    size = facts.hash_block
    if any(group.kind == STATE and group.block_size > size for group in facts.groups):
        raise UsageError(
            "replay does not model prefix hits that end inside a state's block",
            hint="leave prefix caching off: --engine-args --no-enable-prefix-caching",
        )
