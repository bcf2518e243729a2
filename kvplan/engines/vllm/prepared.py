"""One model under one set of vLLM's options: pools for requests, and pools out of memory.

    plan(ctx, batch)     (batch x blocks of one request + 1 null block, which V0 lacks) x bytes per
                         block, on every rank
    capacity(available)  what vLLM makes of the bytes it has: see `pool.capacity`

Figures are cheap; sentences and defaults are added by `explained`. Source: vllm 0.33.0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvplan.arithmetic import ceil_div
from kvplan.dtypes import find_dtype
from kvplan.engines.base import Prepared
from kvplan.engines.kit.refusal import Refusal, Refused
from kvplan.engines.kit.staircase import Staircase
from kvplan.engines.layout import (
    CacheLayout,
    GroupMember,
    Plan,
    PoolGroup,
    Provenance,
    RankLayout,
    Tensor,
    version_notices,
    with_tensors,
)
from kvplan.engines.vllm.facts.gpus import batch_defaults
from kvplan.engines.vllm.facts.versions import HISTORY, Rules
from kvplan.engines.vllm.layers.specs import ChunkedSpec, Load, SlidingSpec
from kvplan.engines.vllm.length import derived_length
from kvplan.engines.vllm.planning import Broken, Built, Planned, at_length
from kvplan.engines.vllm.pool.capacity import Pool, PoolPlan, capacity_of, plan_pool
from kvplan.engines.vllm.pool.group import Group
from kvplan.engines.vllm.reasons import reasons_of
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.steps import Steps

if TYPE_CHECKING:
    from kvplan.engines.base import P

# What JSON shows of a refusal that comes before any pool, and of a pool.
REFUSED = (
    "fits", "num_blocks", "block_size", "page_bytes", "capacity_tokens", "max_concurrency",
    "needed_bytes_one_request",
)  # fmt: skip
PRINTED = (
    "fits", "max_model_len", "max_model_len_that_fits", "max_num_seqs_that_starts", "num_blocks",
    "block_size", "page_bytes",
    "bytes_per_block", "capacity_tokens", "max_concurrency", "request_blocks",
    "needed_bytes_one_request", "request_bytes", "charged_bytes", "allocated_bytes",
    "kv_cache_layout", "kv_cache_dtype", "max_num_batched_tokens", "in_flight_tokens", "groups",
)  # fmt: skip


class VllmFigures(NamedTuple):
    """vLLM's figures that no other engine has; lists are per pipeline stage.

    Attributes:
        max_model_len_that_fits: the longest request, when a longer one was refused.
        request_bytes, charged_bytes: of one request: what it takes, and what the start-up check
            of the version charges it with.
        allocated_bytes: of the pool; None when it would not start.
        made, load: the pool and the request that `reasons_of` tells about.
    """

    max_model_len_that_fits: int | None
    request_bytes: tuple[int, ...]
    charged_bytes: tuple[int, ...]
    allocated_bytes: tuple[int, ...] | None
    kv_cache_layout: str
    kv_cache_dtype: str
    max_num_batched_tokens: int
    in_flight_tokens: int
    made: Planned
    load: Load
    null_block: bool


class PreparedVllm(Prepared):
    """A model's groups under one set of options; `dp` replicas."""

    def __init__(self, built: Built, *, dp: int, notes: tuple[Provenance, ...], how: str) -> None:
        self.built = built
        self.settings = built.settings
        self.rules = built.settings.rules
        self.dp = dp
        self.how = how
        self.notes = notes

    @cached_property
    def staircase(self) -> Staircase | None:
        """The pool of a request; None where a refusal or a group has not that form."""
        settings = self.settings
        parts = self.built.parts
        unlike = settings.batched_tokens is not None and settings.chunked_prefill is False
        if isinstance(parts, Broken) or unlike or settings.state_block_size is not None:
            return None
        first, last = (1, None) if settings.length is not None else self._constant_from()
        try:
            made = self._at(first)
        except Refused:
            return None
        if settings.length is not None:
            last = made.load.length
        pool = parts.pool
        if not pool.groups:
            return Staircase(steps=Steps(), unit=0, first=first, last=last)
        found = pool.request_steps(made.load)
        if found is None:
            return None
        steps, divisor = found
        return Staircase(
            steps=steps,
            divisor=divisor,
            once=int(pool.rules.null_block),
            unit=max(self._per_block),
            first=first,
            last=last,
        )

    def _constant_from(self) -> tuple[int, int | None]:
        """The lengths from which max_num_batched_tokens is the same, and up to which one starts."""
        settings, first = self.settings, 1
        if settings.batched_tokens is None and not settings.rules.is_v0:
            tokens, _ = batch_defaults(settings.gpu, settings.rules.batch_class)
            first = ceil_div(tokens, settings.seqs)
        derived = None if settings.long_length_allowed else derived_length(self.built.spec)
        return first, None if derived is None else int(derived)

    def plan(self, ctx: int | None, batch: int) -> Plan:
        try:
            made = self._at(ctx)
        except Refused as refused:
            return self._refused(refused, (*self.notes, *self.settings.provenance))
        # Beside --max-model-len, ctx is what the sequences really have.
        load = made.load
        if ctx is not None and ctx != load.length:
            if ctx > load.length:
                longer = Refused(
                    "length-above-limit",
                    "ValueError",
                    f"{ctx:,} tokens are more than --max-model-len {load.length}",
                    ctx=ctx,
                    max_model_len=load.length,
                )
                return self._refused(longer, self.notes)
            load = replace(load, length=ctx)
            made = replace(made, load=load)
        pool = made.pool
        blocks, capacity, concurrency = 0, None, None
        if pool.groups:
            blocks = batch * pool.request_blocks(load) + pool.rules.null_block
            capacity, concurrency = capacity_of(pool, load, blocks)
        planned = PoolPlan(
            length=load.length, num_blocks=blocks, capacity=capacity, concurrency=concurrency
        )
        return self._answer(made, planned, self.notes, null_block=pool.rules.null_block)

    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        plan = self.explained(self.plan(ctx, batch))
        return with_tensors(plan, self.tensors(plan))

    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        try:
            made = self._at(ctx)
        except Refused as refused:
            return self._refused(refused, (*self.notes, *self.settings.provenance))
        notes = self.notes
        if ctx not in (None, made.load.length):
            why = f"kvplan: vllm's own flag; the request's sequences have {ctx:,} tokens"
            notes = (*notes, Provenance("max_model_len", str(made.load.length), why))
        own = self.settings.cache_bytes
        planned = plan_pool(
            made.pool,
            made.load,
            own if own is not None else available_bytes,
            override=self.settings.blocks_override,
            auto_length=made.length.auto,
            most_sequences=self._most_sequences,
        )
        return self._answer(made, planned, notes, null_block=False, of_memory=True)

    def explained(self, plan: P) -> P:
        """The plan with its reasons, and the defaults that were applied."""
        figures = plan.extra
        if not isinstance(figures, VllmFigures) or plan.reasons:
            return plan
        made = figures.made
        at_plan = replace(made.load, length=figures.load.length)
        reasons = reasons_of(made, at_plan, null_block=figures.null_block)
        if not figures.null_block:
            reasons = (*reasons, *self._unserved(plan, figures))
        return plan.replaced(reasons=reasons, provenance=(*plan.provenance, *made.provenance))

    def tensors(self, plan: Plan) -> tuple[RankLayout, ...]:
        """The pool of every rank: tensor parallel ranks of a stage are equal."""
        if plan.num_blocks is None:
            return ()
        tp = self.settings.tp
        runs: list[RankLayout] = []
        for _ in range(self.dp):
            for stage, per_block in enumerate(plan.bytes_per_block):
                tensors = self._stage_tensors(stage, per_block, plan.num_blocks)
                last = runs[-1] if runs else None
                if last is not None and last.tensors == tensors:
                    runs[-1] = last.replaced(count=last.count + tp)
                else:
                    first = last.rank + last.count if last is not None else 0
                    runs.append(RankLayout(rank=first, tensors=tensors, count=tp))
        return tuple(runs)

    def _stage_tensors(self, stage: int, per_block: int, blocks: int) -> tuple[Tensor, ...]:
        """The pool of one rank: one tensor, or before 0.20 one per layer of its widest group."""
        size = blocks * per_block
        if not size:
            return ()
        if self.rules.one_tensor:
            return (Tensor("kv_cache", (size,), "int8", size),)
        widest = max(self._pool.groups, key=lambda group: group.pages(stage))
        pages = [run.spec.page for run in widest.members for _ in range(run.counts[stage])]
        if sum(pages) != per_block:
            return (Tensor("kv_cache", (size,), "int8", size),)
        return tuple(
            Tensor(f"kv_cache.{index}", (blocks * page,), "int8", blocks * page)
            for index, page in enumerate(pages)
        )

    @property
    def _most_sequences(self) -> int | None:
        """max_num_seqs where full CUDA graphs hold it against the blocks."""
        settings = self.settings
        return settings.seqs if self.rules.states_limit_sequences and settings.full_graphs else None

    def _at(self, ctx: int | None) -> Planned:
        flag = self.settings.length
        return at_length(self.built, ctx if flag is None else flag)

    def _refused(self, refused: Refused, notes: tuple[Provenance, ...]) -> Plan:
        return Plan(
            engine="vllm",
            version=self.rules.version,
            rules=self.how,
            refusal=_named(refused.refusal, self.rules),
            fits=False,
            printed=REFUSED,
            provenance=notes,
            notices=version_notices(notes),
        )

    @cached_property
    def _per_block(self) -> tuple[int, ...]:
        pool = self._pool
        return tuple(pool.bytes_per_block(stage) for stage in range(pool.stages))

    @cached_property
    def _page(self) -> int:
        pages = (run.spec.page for group in self._pool.groups for run in group.members)
        return max(pages, default=0)

    @cached_property
    def _members(self) -> tuple[tuple[int, tuple[GroupMember, ...]], ...]:
        """(page bytes, members) of each group."""
        return tuple((_group_page(group), _members(group)) for group in self._pool.groups)

    @cached_property
    def _own_memory(self) -> int | None:
        """The bytes of a rank's cache where vLLM's flags say them, as such or in blocks."""
        if self.settings.blocks_override is not None:
            return self.settings.blocks_override * max(self._per_block) or None
        return self.settings.cache_bytes

    @cached_property
    def _notices(self) -> tuple[Notice, ...]:
        return (*version_notices(self.notes), *_format_notices(self.settings.cache_dtype))

    @property
    def _pool(self) -> Pool:
        parts = self.built.parts
        assert not isinstance(parts, tuple)
        return parts.pool

    def _answer(
        self,
        made: Planned,
        planned: PoolPlan,
        notes: tuple[Provenance, ...],
        *,
        null_block: bool,
        of_memory: bool = False,
    ) -> Plan:
        pool, load, per_block = made.pool, made.load, self._per_block
        blocks = tuple(group.blocks(load) for group in pool.groups)
        needed = tuple(pool.request_bytes(load, stage) for stage in range(pool.stages))
        allocated = None
        if planned.num_blocks is not None:
            counts = [planned.num_blocks] * len(per_block)
            if self.rules.stage_pools and planned.own_blocks:
                counts = list(planned.own_blocks)
            allocated = tuple(count * size for count, size in zip(counts, per_block, strict=True))
        charged: tuple[int, ...] = ()
        if pool.groups:
            charged = tuple(pool.charged_bytes(load, stage) for stage in range(pool.stages))
        groups = tuple(
            PoolGroup(
                group.members[0].spec.kind,
                group.members_on(0) if self.rules.groups_by_stage else group.layers,
                group.tokens_per_block(load.length),
                page,
                count,
                members,
            )
            for group, count, (page, members) in zip(
                pool.groups, blocks, self._members, strict=True
            )
        )
        own = self._own_memory
        return Plan(
            engine="vllm",
            version=self.rules.version,
            rules=self.how,
            refusal=planned.refusal,
            fits=planned.refusal is None,
            max_model_len=planned.length,
            max_num_seqs_that_starts=planned.most_seqs,
            num_blocks=planned.num_blocks,
            block_size=made.choice.size,
            page_bytes=self._page,
            bytes_per_block=per_block,
            capacity_tokens=planned.capacity,
            max_concurrency=planned.concurrency,
            request_blocks=sum(blocks),
            needed_bytes_one_request=max(charged if of_memory else needed, default=0),
            peak_bytes=max(allocated, default=0) if allocated else 0,
            available_bytes=own,
            groups=groups,
            extra=VllmFigures(
                max_model_len_that_fits=planned.longest,
                request_bytes=needed,
                charged_bytes=charged,
                allocated_bytes=allocated,
                kv_cache_layout=pool.layout,
                kv_cache_dtype=made.model.cache.name,
                max_num_batched_tokens=load.batched,
                in_flight_tokens=load.in_flight,
                made=made,
                load=load
                if planned.length == load.length
                else replace(load, length=planned.length),
                null_block=null_block,
            ),
            printed=PRINTED if own is None else (*PRINTED, "available_bytes"),
            provenance=notes,
            notices=self._notices,
        )

    def _unserved(self, plan: Plan, figures: VllmFigures) -> tuple[str, ...]:
        """Why a pool with which a version starts does not hold the longest request it promises."""
        pool, load = figures.made.pool, figures.load
        if plan.num_blocks is None or not pool.groups:
            return ()
        needed, null_block = pool.request_blocks(load), pool.rules.null_block
        usable = plan.num_blocks - null_block
        if needed <= usable:
            return ()
        why = ""
        if null_block and needed == plan.num_blocks:
            why = ", because the start-up check leaves out the null block"
        return (
            f"it starts all the same{why}: a request of {load.length:,} tokens takes {needed:,}"
            f" blocks, and {usable:,} of the pool's {plan.num_blocks:,} can serve it",
        )


# What 0.33's rules tell apart by names of their own stands under older ones before.
_OLDER_NAMES = {
    "format-not-on-device": "kv-cache-dtype-unsupported",
    "no-backend": "no-attention-backend",
}


def _named(refusal: Refusal, rules: Rules) -> Refusal:
    """The refusal under the name that its kind has in this release's rules."""
    code = _OLDER_NAMES.get(refusal.code)
    if code is None or HISTORY.number(rules.version) >= HISTORY.number("0.33.0"):
        return refusal
    return refusal.replaced(code=code)


def _of_length(load: Load, length: int) -> Load:
    return load if load.length == length else replace(load, length=length)


def _group_page(group: Group) -> int:
    if group.mixed:
        return sum(run.spec.page * run.count for run in group.members)
    return group.members[0].spec.page


def _members(group: Group) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(
            kind=run.spec.kind,
            layers=run.count,
            shape=run.spec.shape,
            dtype=run.spec.element,
            window=run.spec.window if isinstance(run.spec, SlidingSpec) else None,
            chunk=run.spec.chunk if isinstance(run.spec, ChunkedSpec) else None,
            page_bytes=run.spec.page,
            content_bytes=run.spec.natural_page,
        )
        for run in group.members
    )


def _format_notices(name: str) -> tuple[Notice, ...]:
    """The warning that the logical figure cannot be in a format of vLLM's own."""
    if name.lower() == "auto" or find_dtype(name) is not None:
        return ()
    message = f"{name} is vllm's own format; the logical figure is in the model's own"
    return (Notice("engine-format", message),)
