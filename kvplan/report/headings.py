"""What stands at the head of a page: the model, and what was asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engines.request import NO_FORMAT
from kvplan.units import format_count

if TYPE_CHECKING:
    from kvplan.plan.size import SizeResult


def length(result: SizeResult) -> str:
    """`8,192 tokens`; `any number of tokens` where nothing depends on it."""
    logical = result.logical
    follows = any(
        share.bytes_per_token or share.state.depends_on_context for share in logical.shares
    )
    if logical.ctx == 1 and result.model.spec.max_context is None and not follows:
        return "any number of tokens"
    return format_count(logical.ctx, "token")


def in_format(result: SizeResult, before: str) -> str:
    """`, bfloat16`, with what stands before the name; "" where no format stores anything."""
    return "" if result.dtype_name == NO_FORMAT.name else f"{before}{result.dtype_name}"
