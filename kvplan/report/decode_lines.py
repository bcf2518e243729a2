"""The least time of a decode step, as lines of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.report.prose import hanging
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.plan.decode import Decode
    from kvplan.report.console import Console


def print_decode(console: Console, bound: Decode, where: str = "") -> None:
    """Print the bound; `where` names the devices, where the page has not."""
    on = f" on {where}" if where else ""
    console.print(
        f"the least time of a decode step{on} (a bound: memory bandwidth alone)", style="bold"
    )
    read = bound.weights_bytes + bound.kv_bytes
    lines = [
        (
            "reads",
            f"{format_bytes(read)} a step, {bound.kv_share:.0%} of it cache, at"
            f" {bound.bandwidth_gbs:,.0f} GB/s",
        ),
        (
            "at best",
            f"{bound.milliseconds:.2f} ms a token, {bound.tokens_per_second:,.0f} tokens a second",
        ),
    ]
    if bound.outweighs_at is not None:
        at = f"from {bound.outweighs_at:,} tokens a sequence on the cache outweighs the weights"
        lines.append(("", at))
    for label, text in lines:
        hanging(console, f"{label:<14}", text)
