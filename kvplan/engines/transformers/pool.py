"""The paged cache as an answer: its one tensor, its figures, and what fits into it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.layout import CacheLayout, Provenance, RankLayout, Tensor, version_notices
from kvplan.engines.request import Request, context_of
from kvplan.engines.transformers import paged
from kvplan.engines.transformers.fit import largest
from kvplan.engines.transformers.layers import Builder
from kvplan.engines.transformers.memory import sizing_of
from kvplan.engines.transformers.paged import Pool
from kvplan.errors import UsageError


def paged_layout(
    builder: Builder, request: Request, provenance: tuple[Provenance, ...]
) -> CacheLayout:
    """The pool of `num_blocks`, or the smallest that holds `batch` sequences of `ctx` tokens."""
    refusal = _refusal(builder)
    if refusal is not None:
        return _answer(builder, request, provenance, refusal=refusal)
    pool = _pool(builder)
    asked = builder.options.paging.num_blocks
    ctx = context_of(builder.spec, request)
    sectors = (
        pool.sectors_of_requests(request.batch, ctx)
        if asked is None
        else pool.sectors_of_blocks(asked)
    )
    return _answer(builder, request, provenance, pool=pool, sectors=sectors, ctx=ctx)


def paged_fit(
    builder: Builder, request: Request, provenance: tuple[Provenance, ...], available_bytes: int
) -> CacheLayout:
    """The pool made out of `available_bytes` per rank.

    With `max_memory_percent` they are the free memory, and the library's own sizing pays
    activations and buffers first; without, they are for the cache tensor alone.
    """
    refusal = _refusal(builder)
    none = {"fits": False, "max_batch_at_ctx": 0, "max_ctx_at_batch": 0}
    if refusal is not None:
        return _answer(builder, request, provenance, refusal=refusal, extra=none)
    pool, paging = _pool(builder), builder.options.paging
    ctx = context_of(builder.spec, request)
    available = available_bytes
    if paging.num_blocks is not None:
        sectors = pool.sectors_of_blocks(paging.num_blocks)
    elif paging.max_memory_percent is not None:
        available = int(available_bytes * paging.max_memory_percent)
        sizing = sizing_of(builder.spec, pool, paging, builder.tp)
        sectors = sizing.sectors(available)
        footprint = sizing.footprint(sectors)
        if footprint > available:
            refusal = Refusal(
                code="footprint-above-memory",
                exception="MemoryError",
                message=f"the pool and its buffers take {footprint:,} bytes and {available:,} are "
                "there; lower max_batch_tokens",
                figures={"needed_bytes": footprint, "available_bytes": available},
            )
        elif sectors <= 0:
            refusal = Refusal(
                code="no-memory",
                exception="ValueError",
                message=f"activations of {paging.max_batch_tokens:,} tokens leave no memory for "
                "the cache; lower max_batch_tokens or raise max_memory_percent",
                figures={
                    "available_bytes": available,
                    "max_batch_tokens": paging.max_batch_tokens,
                    "num_sectors": sectors,
                },
            )
    else:
        sectors = available // pool.bytes_per_sector - paged.TRASH_SECTORS
    if refusal is not None:
        return _answer(builder, request, provenance, refusal=refusal, extra=none)
    sectors = max(sectors, 0)
    # A pool that is larger than the memory serves nobody; none is made then.
    served = sectors if pool.tensor_bytes(sectors) <= available else 0
    needed = pool.sectors_of_requests(request.batch, ctx)
    batches = largest(lambda batch: pool.sectors_of_requests(batch, ctx), served)
    extra = {
        "available_bytes": available_bytes,
        "fits": served > 0 and needed <= served,
        "max_batch_at_ctx": batches,
        "max_ctx_at_batch": largest(
            lambda tokens: pool.sectors_of_requests(request.batch, tokens), served
        ),
        "capacity_tokens": largest(lambda tokens: pool.sectors_of_requests(1, tokens), served),
        "max_concurrency": batches,
    }
    found = _answer(builder, request, provenance, pool=pool, sectors=sectors, ctx=ctx, extra=extra)
    if paging.num_blocks is None or not 0 < served < needed:
        return found
    why = f"num_blocks {paging.num_blocks:,} are {served:,} sectors, the request takes {needed:,}"
    return replace(found, reasons=(*found.reasons, why))


def _refusal(builder: Builder) -> Refusal | None:
    if builder.rules.legacy:
        raise UsageError(
            f"the paged cache of transformers {builder.rules.version} is not modelled",
            hint="5.24.0 is",
        )
    return paged.refusal(builder.spec, builder.family) or paged.tp_refusal(builder.spec, builder.tp)


def _pool(builder: Builder) -> Pool:
    return paged.pool_of(
        builder.spec,
        builder.family,
        builder.dtype,
        builder.options.paging.page_size,
        builder.tp,
    )


def _answer(
    builder: Builder,
    request: Request,
    provenance: tuple[Provenance, ...],
    *,
    pool: Pool | None = None,
    sectors: int = 0,
    ctx: int = 0,
    extra: dict[str, Any] | None = None,
    refusal: Refusal | None = None,
) -> CacheLayout:
    ranks: tuple[RankLayout, ...] = ()
    figures = extra or {}
    why: tuple[str, ...] = ()
    if pool is not None:
        size = pool.tensor_bytes(sectors)
        tensor = Tensor("cache_tensor", (size,), "uint8", size)
        ranks = tuple(RankLayout(rank, (tensor,)) for rank in range(request.tp))
        figures = {
            "bytes": size * request.tp,
            "storage_bytes": size * request.tp,
            "num_blocks": pool.num_blocks(sectors),
            "block_size": pool.page_size,
            "page_bytes": pool.page_bytes,
            "num_sectors": sectors,
            "bytes_per_sector": pool.bytes_per_sector,
            "needed_bytes_one_request": pool.tensor_bytes(pool.sectors_of_requests(1, ctx)),
            "groups": {
                group.layer_type: {
                    "layers": group.layers,
                    "bytes_per_block": group.bytes_per_block,
                    "blocks_per_sector": pool.bytes_per_sector // group.bytes_per_block,
                }
                for group in pool.groups
            },
            **figures,
        }
        why = (
            f"the cache tensor starts with {paged.TRASH_SECTORS} sectors of "
            f"{pool.bytes_per_sector:,} bytes for padding tokens, which no request can use",
            f"a request takes whole blocks of {pool.page_size:,} tokens, and each attention type "
            "takes whole sectors",
        )
    return CacheLayout(
        engine="transformers",
        version=builder.rules.version,
        ranks=ranks,
        refusal=refusal,
        provenance=provenance,
        figures=figures,
        reasons=why,
        notices=version_notices(provenance),
    )
