"""The paged cache as an answer: its one tensor, its figures, and what fits into it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from kvplan.engines.base import Prepared
from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.layout import (
    CacheLayout,
    Plan,
    Provenance,
    RankLayout,
    Tensor,
    version_notices,
    with_tensors,
)
from kvplan.engines.request import Request, context_of
from kvplan.engines.transformers import paged
from kvplan.engines.transformers.fit import largest
from kvplan.engines.transformers.layers import Builder
from kvplan.engines.transformers.memory import sizing_of
from kvplan.engines.transformers.options import Paging
from kvplan.engines.transformers.paged import Pool
from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple


class PagedFigures(NamedTuple):
    """Figures of the paged cache that no other pool has."""

    bytes: int
    storage_bytes: int
    num_sectors: int
    bytes_per_sector: int
    groups: dict[str, dict[str, int]]


PRINTED = (
    "bytes", "storage_bytes", "num_blocks", "block_size", "page_bytes", "num_sectors",
    "bytes_per_sector", "needed_bytes_one_request", "groups",
)  # fmt: skip
_INVERSES = (
    "available_bytes", "fits", "max_batch_at_ctx", "max_ctx_at_batch", "capacity_tokens",
    "max_concurrency",
)  # fmt: skip
_REFUSED = ("fits", "max_batch_at_ctx", "max_ctx_at_batch")


class PreparedPaged(Prepared):
    """The paged cache of one model: a tensor of sectors that every layer shares."""

    def __init__(
        self, request: Request, builder: Builder, provenance: tuple[Provenance, ...]
    ) -> None:
        self.request = request
        self.builder = builder
        self.provenance = provenance
        self.refusal = _refusal(builder)

    def plan(self, ctx: int | None, batch: int) -> Plan:
        """The pool of `num_blocks`, or the smallest that holds `batch` sequences of `ctx`."""
        if self.refusal is not None:
            return self._refused(self.refusal)
        pool = self._pool
        asked = self.builder.options.paging.num_blocks
        tokens = self._tokens(ctx)
        sectors = (
            pool.sectors_of_requests(batch, tokens)
            if asked is None
            else pool.sectors_of_blocks(asked)
        )
        return self._answer(sectors, tokens)

    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        plan = self.plan(ctx, batch)
        if plan.refusal is not None:
            return with_tensors(plan, ())
        tensor = Tensor("cache_tensor", (plan.peak_bytes,), "uint8", plan.peak_bytes)
        run = RankLayout(rank=0, tensors=(tensor,), count=self.builder.tp)
        return with_tensors(plan, (run,))

    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        """The pool made out of `available_bytes` per rank.

        With `max_memory_percent` they are the free memory, and the library's own sizing pays
        activations and buffers first; without, they are for the cache tensor alone.
        """
        if self.refusal is not None:
            return self._unmade(self.refusal)
        pool, paging = self._pool, self.builder.options.paging
        tokens = self._tokens(ctx)
        available = available_bytes
        if paging.num_blocks is not None:
            sectors = pool.sectors_of_blocks(paging.num_blocks)
        elif paging.max_memory_percent is not None:
            available = int(available_bytes * paging.max_memory_percent)
            sizing = sizing_of(self.builder.spec, pool, paging, self.builder.tp)
            sectors = sizing.sectors(available)
            refusal = _too_small(sizing.footprint(sectors), available, paging, sectors)
            if refusal is not None:
                return self._unmade(refusal)
        else:
            sectors = available // pool.bytes_per_sector - paged.TRASH_SECTORS
        sectors = max(sectors, 0)
        # A pool that is larger than the memory serves nobody; none is made then.
        served = sectors if pool.tensor_bytes(sectors) <= available else 0
        needed = pool.sectors_of_requests(batch, tokens)
        batches = largest(lambda batch: pool.sectors_of_requests(batch, tokens), served)
        plan = self._answer(sectors, tokens)
        found = plan.replaced(
            available_bytes=available_bytes,
            fits=served > 0 and needed <= served,
            inverted=True,
            max_batch_at_ctx=batches,
            max_ctx_at_batch=largest(
                lambda tokens: pool.sectors_of_requests(batch, tokens), served
            ),
            capacity_tokens=largest(lambda tokens: pool.sectors_of_requests(1, tokens), served),
            max_concurrency=batches,
            printed=(*PRINTED, *_INVERSES),
        )
        if paging.num_blocks is None or not 0 < served < needed:
            return found
        why = (
            f"num_blocks {paging.num_blocks:,} are {served:,} sectors, the request takes {needed:,}"
        )
        return found.replaced(reasons=(*found.reasons, why))

    @cached_property
    def _pool(self) -> Pool:
        builder = self.builder
        return paged.pool_of(
            builder.spec,
            builder.family,
            builder.dtype,
            builder.options.paging.page_size,
            builder.tp,
        )

    def _tokens(self, ctx: int | None) -> int:
        return context_of(self.builder.spec, self.request.replaced(ctx=ctx))

    def _refused(self, refusal: Refusal, **more: Any) -> Plan:
        return Plan(
            engine="transformers",
            version=self.builder.rules.version,
            refusal=refusal,
            fits=False,
            provenance=self.provenance,
            notices=version_notices(self.provenance),
            **more,
        )

    def _unmade(self, refusal: Refusal) -> Plan:
        return self._refused(
            refusal, inverted=True, max_batch_at_ctx=0, max_ctx_at_batch=0, printed=_REFUSED
        )

    def _answer(self, sectors: int, tokens: int) -> Plan:
        pool, tp = self._pool, self.builder.tp
        size = pool.tensor_bytes(sectors)
        return Plan(
            engine="transformers",
            version=self.builder.rules.version,
            peak_bytes=size,
            stated_bytes=size * tp,
            num_blocks=pool.num_blocks(sectors),
            block_size=pool.page_size,
            page_bytes=pool.page_bytes,
            needed_bytes_one_request=pool.tensor_bytes(pool.sectors_of_requests(1, tokens)),
            extra=PagedFigures(
                bytes=size * tp,
                storage_bytes=size * tp,
                num_sectors=sectors,
                bytes_per_sector=pool.bytes_per_sector,
                groups={
                    group.layer_type: {
                        "layers": group.layers,
                        "bytes_per_block": group.bytes_per_block,
                        "blocks_per_sector": pool.bytes_per_sector // group.bytes_per_block,
                    }
                    for group in pool.groups
                },
            ),
            printed=PRINTED,
            reasons=(
                f"the cache tensor starts with {paged.TRASH_SECTORS} sectors of "
                f"{pool.bytes_per_sector:,} bytes for padding tokens, which no request can use",
                f"a request takes whole blocks of {pool.page_size:,} tokens, and each attention"
                " type takes whole sectors",
            ),
            provenance=self.provenance,
            notices=version_notices(self.provenance),
        )


def _too_small(footprint: int, available: int, paging: Paging, sectors: int) -> Refusal | None:
    if footprint > available:
        return Refusal(
            code="footprint-above-memory",
            exception="MemoryError",
            message=f"the pool and its buffers take {footprint:,} bytes and {available:,} are "
            "there; lower max_batch_tokens",
            figures={"needed_bytes": footprint, "available_bytes": available},
        )
    if sectors > 0:
        return None
    return Refusal(
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


def _refusal(builder: Builder) -> Refusal | None:
    if builder.rules.legacy:
        raise UsageError(
            f"the paged cache of transformers {builder.rules.version} is not modelled",
            hint="5.24.0 is",
        )
    return paged.refusal(builder.spec, builder.family) or paged.tp_refusal(builder.spec, builder.tp)
