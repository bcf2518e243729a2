"""What stands at the head of a page about what was asked of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engines.request import NO_FORMAT
from kvplan.units import format_count

if TYPE_CHECKING:
    from kvplan.engines.logical import LogicalCache
    from kvplan.spec.model import ModelSpec


ANY_LENGTH = "any number of tokens"


def asked(spec: ModelSpec, logical: LogicalCache) -> str:
    """`8,192 tokens x 1 sequence, bfloat16`."""
    sequences = format_count(logical.batch, "sequence")
    return f"{length(spec, logical)} x {sequences}{in_format(logical, ', ')}"


def length(spec: ModelSpec, logical: LogicalCache) -> str:
    """`8,192 tokens`; `any number of tokens` where nothing depends on it."""
    follows = any(
        share.bytes_per_token or share.state.depends_on_context for share in logical.shares
    )
    if logical.ctx == 1 and spec.max_context is None and not follows:
        return ANY_LENGTH
    return format_count(logical.ctx, "token")


def in_format(logical: LogicalCache, before: str) -> str:
    """`, bfloat16`, with what stands before the name; "" where no format stores anything."""
    name = logical.dtypes.name
    return "" if name == NO_FORMAT.name else f"{before}{name}"
