"""From groups to blocks: bytes per block, blocks of a request, blocks of a pool, vLLM's log line.

    bytes per block   layers outermost: max over groups of the sum of its layers' strides
                      blocks outermost: max over groups of the sum of pages, rounded up to the
                      lcm of the strides' alignments
    num_blocks        available // bytes per block, the smallest over all ranks
    fits              request blocks x bytes per block <= available - bytes per block (null block)
    concurrency       num_blocks / request blocks
    capacity          int(concurrency x length), in this order of floating-point operations

Source: vllm 0.33.0, v1/core/kv_cache_planning.py, v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from kvplan.arithmetic import round_up
from kvplan.engines.kit.refusal import Refusal, Refused
from kvplan.engines.vllm.facts.versions import Rules
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import Load, StateSpec
from kvplan.engines.vllm.pool import latent_pool
from kvplan.engines.vllm.pool.group import Group
from kvplan.engines.vllm.pool.kv_layout import is_block_outermost
from kvplan.steps import Steps, largest_of, total
from kvplan.units import format_bytes


@dataclass(frozen=True)
class Pool:
    """The groups of a model and what they cost; what no request changes is worked out once.

    Attributes:
        groups: in vLLM's order.
        layout: order of the pool's dimensions.
        stages: pipeline stages.
        rules: of the version.
        runs: the layers' caches before they were grouped.
    """

    groups: tuple[Group, ...]
    layout: str
    stages: int
    rules: Rules
    runs: tuple[Run, ...] = ()

    @cached_property
    def _latent_pool(self) -> str:
        """How latents with windows share blocks in this version; `packed` for all else."""
        if self.rules.latent_pool == latent_pool.PACKED:
            return latent_pool.PACKED
        windows = latent_pool.has_latent_windows(self.groups)
        return self.rules.latent_pool if windows else latent_pool.PACKED

    @cached_property
    def _counts_whole_model(self) -> bool:
        """A group of unequal pages is not cut to the stage before its page is counted."""
        return len(self.groups) == 1 and self.groups[0].mixed and not self.rules.projects_mixed

    @cached_property
    def has_states(self) -> bool:
        """Whether some layer keeps a recurrent state."""
        runs = (run for group in self.groups for run in group.members)
        return any(isinstance(run.spec, StateSpec) for run in runs)

    def bytes_per_block(self, stage: int) -> int:
        """Bytes of one block on a rank of this stage, 0 without a cache."""
        return self._per_block[stage]

    @cached_property
    def _per_block(self) -> tuple[int, ...]:
        return tuple(map(self._block, range(self.stages)))

    def _block(self, stage: int) -> int:
        if not self.groups:
            return 0
        if self._latent_pool in (latent_pool.TUPLES, latent_pool.SLOTS):
            return latent_pool.bytes_per_block(self.groups, stage, self._latent_pool)
        if self._counts_whole_model:
            return sum(run.spec.page * run.count for run in self.groups[0].members)
        if not is_block_outermost(self.layout):
            return max(group.strides(stage) for group in self.groups)
        widest = max(group.pages(stage) for group in self.groups)
        alignments = [
            run.spec.stride_alignment
            for group in self.groups
            for run in group.members
            if run.counts[stage]
        ]
        return round_up(widest, lcm(*alignments))

    def check_stages(self) -> None:
        """Every stage must have a layer with a cache, or none.

        Raises:
            Refused: vLLM divides by the bytes of a block, which are 0 on a stage without.
        """
        for stage in range(self.stages if self.groups else 0):
            if not self.bytes_per_block(stage):
                outermost = is_block_outermost(self.layout)
                raise Refused(
                    "stage-without-cache",
                    "AssertionError" if outermost else "ZeroDivisionError",
                    f"pipeline stage {stage} has no layer with a cache, so its blocks are empty; "
                    "use fewer stages, or set VLLM_PP_LAYER_PARTITION",
                    stage=stage,
                )

    def request_blocks(self, load: Load, stage: int = 0) -> int:
        """Blocks that one request needs, summed over the groups."""
        if self._latent_pool in (latent_pool.TUPLES, latent_pool.SLOTS):
            return latent_pool.request_blocks(self.groups, load)
        return sum(group.blocks_on(stage, load) for group in self.groups)

    def request_steps(self, load: Load) -> tuple[Steps, int] | None:
        """(steps, divisor) of `request_blocks`; None when a group's members take unequal blocks."""
        each = []
        for group in self.groups:
            most = largest_of({run.spec.steps(load) for run in group.members})
            if most is None:
                return None
            each.append(most)
        if self._latent_pool in (latent_pool.TUPLES, latent_pool.SLOTS):
            widths, divisor = latent_pool.widths(self.groups)
            return total(zip(widths, each, strict=True)), divisor
        return total((1, steps) for steps in each), 1

    def request_bytes(self, load: Load, stage: int) -> int:
        """Bytes that one request needs on a rank of this stage."""
        return self.request_blocks(load, stage) * self.bytes_per_block(stage)

    def charged_bytes(self, load: Load, stage: int) -> int:
        """Bytes that the start-up check of this version charges one request with."""
        if self._latent_pool != latent_pool.PACKED:
            return latent_pool.charged_bytes(self.groups, load, stage)
        if self.rules.fit_check == "first_group":
            return self.groups[0].blocks_on(stage, load) * self.bytes_per_block(stage)
        if self.rules.fit_check == "one_block":
            return self.bytes_per_block(stage)
        if self.rules.fit_check == "layers":
            return sum(
                run.spec.page * run.counts[stage] * run.spec.blocks(load) for run in self.runs
            )
        if self.rules.fit_check == "first_group_of_model":
            return self._model_charge(load)
        if self.rules.fit_check == "pool_tokens_by_stage":
            # The blocks are divided by the stages first, so each stage must hold that many times.
            return self.request_bytes(load, stage) * self.stages
        return self.request_bytes(load, stage)

    def _model_charge(self, load: Load) -> int:
        """The first group's blocks, as wide as the widest group is over all stages."""
        if self.groups[0].mixed:
            members = self.groups[0].members
            return sum(run.spec.page * run.count * run.spec.blocks(load) for run in members)
        layers = max(group.layers for group in self.groups)
        first = self.groups[0]
        return layers * first.members[0].spec.page * first.blocks(load)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What vLLM makes of the bytes it has.

    Attributes:
        length: tokens of the longest request, after --max-model-len auto.
        num_blocks: blocks of the pool; None when it would not start.
        refusal: why it would not start.
        longest: the longest request that would fit, when asked for.
        own_blocks: blocks that each stage's memory would have held.
        most_seqs: the largest max_num_seqs that would start, when a larger one was asked for.
        capacity, concurrency: as in the log line; None without a pool.
    """

    length: int
    num_blocks: int | None
    refusal: Refusal | None = None
    longest: int | None = None
    most_seqs: int | None = None
    own_blocks: tuple[int, ...] = ()
    capacity: int | None = None
    concurrency: float | None = None


def plan_pool(
    pool: Pool,
    load: Load,
    available: int,
    *,
    override: int | None,
    auto_length: bool,
    most_sequences: int | None = None,
) -> PoolPlan:
    """Split `available` bytes of each rank into blocks, as vLLM does at start.

    Args:
        most_sequences: max_num_seqs where full CUDA graphs hold it against the blocks.
    """
    if not pool.groups:
        if pool.rules.is_v0:
            return PoolPlan(length=load.length, num_blocks=0, capacity=0, concurrency=0.0)
        return PoolPlan(length=load.length, num_blocks=1)
    per_block = [pool.bytes_per_block(stage) for stage in range(pool.stages)]
    checked = override is not None and pool.rules.override_is_checked
    memory = [override * size if checked and override else available for size in per_block]
    usable = [
        have - (size if pool.rules.reserves_null_block else 0)
        for have, size in zip(memory, per_block, strict=True)
    ]
    if auto_length:
        longest = min(
            (longest_request(pool, load, stage, have) for stage, have in enumerate(usable)),
        )
        if longest <= 0:
            return PoolPlan(
                length=load.length,
                num_blocks=None,
                longest=0,
                refusal=Refusal(
                    code="kv-too-small",
                    exception="ValueError",
                    message=f"not even one token fits into {_size(max(0, min(usable)))}; raise "
                    "--gpu-memory-utilization",
                    figures={"available_bytes": max(0, min(usable)), "longest": 0},
                ),
            )
        load = replace(load, length=min(load.length, longest))
    for stage, have in enumerate(usable):
        refusal = _checked(pool, load, stage, have)
        if refusal is not None:
            longest_fit = refusal.figures["longest"]
            return PoolPlan(
                length=load.length, num_blocks=None, refusal=refusal, longest=longest_fit
            )
    blocks = min(have // size for have, size in zip(memory, per_block, strict=True))
    own = tuple(have // size for have, size in zip(memory, per_block, strict=True))
    if override is not None:
        blocks, own = override, ()
    capacity, concurrency = capacity_of(pool, load, blocks)
    plan = PoolPlan(
        length=load.length, num_blocks=blocks, capacity=capacity, concurrency=concurrency,
        own_blocks=own,
    )  # fmt: skip
    if most_sequences is None or not pool.has_states or most_sequences <= blocks:
        return plan
    return replace(plan, refusal=_too_many_sequences(most_sequences, blocks), most_seqs=blocks)


def _too_many_sequences(asked: int, blocks: int) -> Refusal:
    return Refusal(
        code="mamba-blocks-below-max-num-seqs",
        exception="ValueError",
        message=f"with CUDA graphs every sequence needs a block for its state: {asked:,} sequences "
        f"and {blocks:,} blocks; give --max-num-seqs {blocks} or --enforce-eager",
        figures={"max_num_seqs": asked, "num_blocks": blocks},
    )


def capacity_of(pool: Pool, load: Load, blocks: int) -> tuple[int, float]:
    """(tokens, concurrency) of the log line for a pool of this many blocks."""
    smallest = min(group.tokens_per_block(load.length) for group in pool.groups)
    if pool.rules.groups_by_stage and all(
        isinstance(run.spec, StateSpec) for group in pool.groups for run in group.members
    ):
        smallest = 16  # the cache's own block size, which no attention raised
    if pool.rules.capacity == "pool":
        tokens = blocks * smallest
        return tokens, tokens / load.length
    concurrency = blocks / pool.request_blocks(load)
    if pool.rules.capacity == "concurrency":
        return int(concurrency * load.length), concurrency
    return blocks // len(pool.groups) * smallest * load.dcp, concurrency


def _checked(pool: Pool, load: Load, stage: int, usable: int) -> Refusal | None:
    """Why one stage cannot serve a request of the load's length; None when it can."""
    needed = pool.charged_bytes(load, stage)
    if usable <= 0:
        return Refusal(
            code="no-memory",
            exception="ValueError",
            message="no memory is left for the cache; raise --gpu-memory-utilization",
            figures={"needed_bytes": needed, "available_bytes": usable, "longest": 0},
        )
    if needed <= usable:
        return None
    longest = longest_request(pool, load, stage, usable)
    lower = f"lower --max-model-len to {longest} or " if longest > 0 else ""
    return Refusal(
        code="kv-too-small",
        exception="ValueError",
        message=f"a request of {load.length:,} tokens needs {_size(needed)} of cache on a rank and "
        f"{_size(usable)} are there; {lower}raise --gpu-memory-utilization",
        figures={"needed_bytes": needed, "available_bytes": usable, "longest": longest},
    )


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} bytes)"


def longest_request(pool: Pool, load: Load, stage: int, usable: int) -> int:
    """The longest request, up to the load's own length, whose blocks fit into `usable` bytes."""

    def fits(length: int) -> bool:
        return pool.charged_bytes(replace(load, length=length), stage) <= usable

    low, high = 1, load.length
    if not fits(low):
        return 0
    found = 1
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            found, low = middle, middle + 1
        else:
            high = middle - 1
    return found
