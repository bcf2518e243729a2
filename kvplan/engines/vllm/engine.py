"""The vLLM engine: what it sets aside for a request, and what it makes of the memory it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan.dtypes import find_dtype
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.layout import CacheLayout, Provenance, RankLayout, Tensor, version_notices
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.dtype import model_dtype
from kvplan.engines.vllm.facts.versions import VERSIONS, Rules, rules_of
from kvplan.engines.vllm.options.argline import split_engine_args
from kvplan.engines.vllm.options.asked import settled
from kvplan.engines.vllm.options.settings import read_settings
from kvplan.engines.vllm.planning import FindModel, Prepared, prepare
from kvplan.engines.vllm.pool.capacity import Plan, capacity_of, plan_pool
from kvplan.engines.vllm.reasons import reasons_of
from kvplan.notice import Notice
from kvplan.spec.model import ModelSpec

# The engine's own figures by the contract's names.
FIGURES = (
    "num_blocks", "block_size", "page_bytes", "capacity_tokens", "max_concurrency",
    "needed_bytes_one_request",
)  # fmt: skip


def find_by_name(name: str) -> ModelSpec:
    """The spec of a model by its name or path.

    Raises:
        KvplanError: nothing answers to the name.
    """
    from kvplan.load import load_model

    return load_model(name).spec


class VllmEngine:
    """vLLM's planning rules; see the package for their order.

    Args:
        find_model: finds the spec of a draft model that `speculative_config` names.
    """

    name = "vllm"
    versions = VERSIONS

    def __init__(self, find_model: FindModel = find_by_name) -> None:
        self._find_model = find_model

    def split_args(self, text: str) -> dict[str, str]:
        """`--engine-args` as options; see `argline`.

        Raises:
            UsageError: a flag that is not in the table, or without its value.
        """
        return split_engine_args(text)

    def settled(self, request: Request) -> Request:
        """The request with vLLM's own flags for length, format and ranks in its fields.

        Raises:
            UsageError: flags that contradict the request, or that vLLM does not have.
        """
        return settled(request)

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The 16-bit format that vLLM gives a config without one; see `dtype.model_dtype`."""
        settings = read_settings(request, _rules(VERSIONS[0])[0])
        return model_dtype(spec, settings.model_dtype, settings.gpu)[0]

    def layout(self, spec: ModelSpec, request: Request, version: str) -> CacheLayout:
        """The pool that `batch` requests of `ctx` tokens need.

        (batch x blocks of one request + 1 null block, which V0 lacks) x bytes per block, on every
        rank.

        Raises:
            UsageError: an option that vLLM does not have, or a value it cannot take.
        """
        rules, notes = _rules(version)
        request = settled(request)
        settings = read_settings(request, rules)
        try:
            made = prepare(spec, settings, self._find_model)
        except Refused as refused:
            return _refused(rules, refused, (*notes, *settings.provenance))
        # Beside --max-model-len, ctx is what the sequences really have.
        length = made.load.length if request.ctx is None else request.ctx
        if length > made.load.length:
            longer = Refused(
                "length-above-limit",
                "ValueError",
                f"{length:,} tokens are more than --max-model-len {made.load.length}",
                ctx=length,
                max_model_len=made.load.length,
            )
            return _refused(rules, longer, notes)
        load = replace(made.load, length=length)
        pool = made.pool
        blocks = 0
        if pool.groups:
            blocks = request.batch * pool.request_blocks(load) + pool.rules.null_block
        capacity, concurrency = capacity_of(pool, load, blocks) if pool.groups else (None, None)
        plan = Plan(length=length, num_blocks=blocks, capacity=capacity, concurrency=concurrency)
        made = replace(made, load=load)
        return _answer(rules, made, plan, request, notes, null_block=pool.rules.null_block)

    def fit(
        self, spec: ModelSpec, request: Request, version: str, available_bytes: int
    ) -> CacheLayout:
        """The engine's own plan for `available_bytes` of cache memory on every rank.

        Raises:
            UsageError: an option that vLLM does not have, or a value it cannot take.
        """
        rules, notes = _rules(version)
        request = settled(request)
        settings = read_settings(request, rules)
        try:
            made = prepare(spec, settings, self._find_model)
        except Refused as refused:
            return _refused(rules, refused, (*notes, *settings.provenance))
        if request.ctx not in (None, made.load.length):
            why = f"kvplan: vllm's own flag; the request's sequences have {request.ctx:,} tokens"
            notes = (*notes, Provenance("max_model_len", str(made.load.length), why))
        plan = plan_pool(
            made.pool,
            made.load,
            settings.cache_bytes if settings.cache_bytes is not None else available_bytes,
            override=settings.blocks_override,
            auto_length=made.length.auto,
            most_sequences=(
                settings.seqs if rules.states_limit_sequences and settings.full_graphs else None
            ),
        )
        answer = _answer(rules, made, plan, request, notes, null_block=False)
        return replace(answer, reasons=(*answer.reasons, *_unserved(rules, made, plan)))


def _rules(version: str) -> tuple[Rules, tuple[Provenance, ...]]:
    rules, other = rules_of(version)
    notes = (Provenance("version", rules.version, other),) if other else ()
    return rules, notes


def _refused(rules: Rules, refused: Refused, notes: tuple[Provenance, ...]) -> CacheLayout:
    return CacheLayout(
        engine=VllmEngine.name,
        version=rules.version,
        ranks=(),
        refusal=refused.refusal,
        provenance=notes,
        notices=version_notices(notes),
        figures={"fits": False, **dict.fromkeys(FIGURES)},
    )


def _answer(
    rules: Rules,
    made: Prepared,
    plan: Plan,
    request: Request,
    notes: tuple[Provenance, ...],
    *,
    null_block: bool,
) -> CacheLayout:
    return CacheLayout(
        engine=VllmEngine.name,
        version=rules.version,
        ranks=_ranks(made, plan, request),
        refusal=plan.refusal,
        provenance=(*notes, *made.provenance),
        figures={**_figures(made, plan), **_own_memory(made)},
        reasons=reasons_of(made, replace(made.load, length=plan.length), null_block=null_block),
        notices=(*version_notices(notes), *_format_notices(made.settings.cache_dtype)),
    )


def _unserved(rules: Rules, made: Prepared, plan: Plan) -> tuple[str, ...]:
    """Why a pool with which a version starts does not hold the longest request it promises."""
    if plan.num_blocks is None or not made.pool.groups:
        return ()
    needed = made.pool.request_blocks(replace(made.load, length=plan.length))
    usable = plan.num_blocks - made.pool.rules.null_block
    if needed <= usable:
        return ()
    why = ""
    if made.pool.rules.null_block and needed == plan.num_blocks:
        why = ", because the start-up check leaves out the null block"
    return (
        f"it starts all the same{why}: a request of {plan.length:,} tokens takes {needed:,} blocks,"
        f" and {usable:,} of the pool's {plan.num_blocks:,} can serve it",
    )


def _own_memory(made: Prepared) -> dict[str, int]:
    """The bytes of a rank's cache where vLLM's flags say them, as such or in blocks."""
    settings, pool = made.settings, made.pool
    if settings.blocks_override is not None:
        per_block = max(pool.bytes_per_block(stage) for stage in range(pool.stages))
        return {"available_bytes": settings.blocks_override * per_block} if per_block else {}
    if settings.cache_bytes is not None:
        return {"available_bytes": settings.cache_bytes}
    return {}


def _format_notices(name: str) -> tuple[Notice, ...]:
    """The warning that the logical figure cannot be in a format of vLLM's own."""
    if name.lower() == "auto" or find_dtype(name) is not None:
        return ()
    message = f"{name} is vllm's own format; the logical figure is in the model's own"
    return (Notice("engine-format", message),)


def _ranks(made: Prepared, plan: Plan, request: Request) -> tuple[RankLayout, ...]:
    if plan.num_blocks is None:
        return ()
    ranks: list[RankLayout] = []
    per_stage = []
    for stage in range(made.pool.stages):
        size = plan.num_blocks * made.pool.bytes_per_block(stage)
        per_stage.append((Tensor("kv_cache", (size,), "int8", size),) if size else ())
    for _ in range(request.dp):
        for tensors in per_stage:
            for _ in range(made.settings.tp):
                ranks.append(RankLayout(len(ranks), tensors))
    return tuple(ranks)


def _figures(made: Prepared, plan: Plan) -> dict[str, Any]:
    pool, load = made.pool, made.load
    stages = range(pool.stages)
    per_block = [pool.bytes_per_block(stage) for stage in stages]
    needed = [pool.request_bytes(load, stage) for stage in stages]
    return {
        "fits": plan.refusal is None,
        "max_model_len": plan.length,
        "max_model_len_that_fits": plan.longest,
        "max_num_seqs_that_starts": plan.most_seqs,
        "num_blocks": plan.num_blocks,
        "block_size": made.choice.size,
        "page_bytes": max(
            (run.spec.page for group in pool.groups for run in group.members), default=0
        ),
        "bytes_per_block": per_block,
        "capacity_tokens": plan.capacity,
        "max_concurrency": plan.concurrency,
        "request_blocks": sum(group.blocks(load) for group in pool.groups),
        "needed_bytes_one_request": max(needed, default=0),
        "request_bytes": needed,
        "charged_bytes": [pool.charged_bytes(load, stage) for stage in stages]
        if pool.groups
        else [],
        "allocated_bytes": (
            None if plan.num_blocks is None else [plan.num_blocks * size for size in per_block]
        ),
        "kv_cache_layout": pool.layout,
        "kv_cache_dtype": made.model.cache.name,
        "max_num_batched_tokens": load.batched,
        "in_flight_tokens": load.in_flight,
        "groups": [
            {
                "kind": group.members[0].spec.kind,
                "layers": group.layers,
                "block_size": group.tokens_per_block(load.length),
                "page_bytes": (
                    sum(run.spec.page * run.count for run in group.members)
                    if group.mixed
                    else group.members[0].spec.page
                ),
                "request_blocks": group.blocks(load),
                "members": [
                    {
                        "kind": run.spec.kind,
                        "layers": run.count,
                        "shape": run.spec.shape,
                        "dtype": run.spec.element,
                        "window": getattr(run.spec, "window", None),
                        "chunk": getattr(run.spec, "chunk", None),
                        "page_bytes": run.spec.page,
                        "content_bytes": run.spec.natural_page,
                    }
                    for run in group.members
                ],
            }
            for group in pool.groups
        ],
    }
