"""How continuous batching turns free memory into sectors: its own sizing, inverted the same way.

Out of max_memory_percent of the free memory it first pays what grows with the tokens of a batch, M:
one activation peak and the input buffers. Each sector then costs its bytes and, per token it can
hold, the K and V read back at the attention peak and the read indices. Attention masks of
[M, cached + M] are paid by taking sectors away again.

Source: transformers 5.24.0, generation/continuous_batching/cache.py, PagedAttentionMemoryHandler.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arithmetic import ceil_div
from kvplan.engines.transformers.options import Paging
from kvplan.engines.transformers.paged import TRASH_SECTORS, Pool
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec

_INT32, _INT64, _FLOAT32 = 4, 8, 4


@dataclass(frozen=True, slots=True)
class Sizing:
    """Costs of the sizing, in bytes."""

    per_batch_token: int
    per_sector: int
    fixed: int
    mask_item: int
    tokens_per_sector: int
    max_batch_tokens: int

    def masks(self, sectors: int) -> int:
        """Attention masks with `sectors` sectors."""
        readable = sectors * self.tokens_per_sector
        return self.mask_item * self.max_batch_tokens * (readable + self.max_batch_tokens)

    def sectors(self, available: int) -> int:
        """Sectors out of `available` bytes, masks paid; 0 or less means that it does not start."""
        memory = available - self.fixed - self.max_batch_tokens * self.per_batch_token
        found = memory // self.per_sector
        masks = self.masks(found)
        return found - ceil_div(masks, self.per_sector + self.masks(found + 1) - masks)

    def footprint(self, sectors: int) -> int:
        """Everything that the sizing accounts for."""
        return (
            self.fixed
            + self.max_batch_tokens * self.per_batch_token
            + sectors * self.per_sector
            + self.masks(sectors)
        )


def sizing_of(spec: ModelSpec, pool: Pool, paging: Paging, tp: int) -> Sizing:
    """The costs of one model.

    Raises:
        UsageError: the spec lacks heads, hidden_size or vocab_size.
    """
    missing = [key for key in ("heads", "hidden_size", "vocab_size") if getattr(spec, key) is None]
    if missing:
        raise UsageError(
            f"{spec.name} does not say its {' and '.join(missing)}, which max_memory_percent needs",
            hint="leave max_memory_percent out, or write it in the spec",
        )
    heads, hidden, vocab = (spec.heads or 0) // tp, spec.hidden_size or 0, spec.vocab_size or 0
    item, dim, groups = pool.item_bytes, pool.head_dim, len(pool.groups)
    sliding = any(group.window is not None for group in pool.groups)
    if paging.flash_attention:
        masks, at_peak = 0, 2 * pool.kv_heads
    else:
        masks, at_peak = (2 if sliding else 1), 2 * heads + pool.kv_heads
    inputs = 2 if paging.use_async_batching else 1
    logits_row = hidden * item + vocab * _FLOAT32
    attention_peak = item * (hidden + heads * dim + 2 * pool.kv_heads * dim + at_peak * dim)
    peak = attention_peak if paging.logits_to_keep else max(logits_row, attention_peak)
    # The decode fast path and its block table need block tables, which sliding layers lack.
    table = 0 if sliding or not paging.flash_attention else paging.max_blocks_per_request
    io = inputs * (
        7 * _INT32  # ids, positions, lengths: packed input rows
        + (2 if paging.return_logprobs else 1) * _INT32
        + groups * table * _INT32
        + groups * _INT64  # write indices
        + groups * _INT64  # read indices of the batch's own tokens
    )
    per_cache_token = at_peak * dim * item + inputs * groups * _INT64
    fixed = TRASH_SECTORS * pool.bytes_per_sector
    if paging.logits_to_keep:
        fixed += paging.max_requests_per_batch * logits_row
    return Sizing(
        per_batch_token=peak + io,
        per_sector=pool.bytes_per_sector + pool.tokens_per_sector * per_cache_token,
        fixed=fixed,
        mask_item=inputs * masks * item,
        tokens_per_sector=pool.tokens_per_sector,
        max_batch_tokens=paging.max_batch_tokens,
    )
