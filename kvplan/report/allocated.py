"""What an engine sets aside, under the logical figure of `kvplan size`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.report.prose import hanging
from kvplan.report.provenance import defaults_line
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.engines.layout import CacheLayout
    from kvplan.report.console import Console

_INDENT = 14


def print_allocated(console: Console, layout: CacheLayout, *, sources: bool) -> None:
    """Print the figure or the refusal, then why.

    Args:
        console: where to.
        layout: the engine's answer.
        sources: where each default comes from stands elsewhere on the page.
    """

    def under(text: str) -> None:
        hanging(console, " " * _INDENT, text)

    engine = f"{layout.engine} {layout.version}"
    if layout.refusal is not None:
        text = f"{engine} refuses to start: {layout.refusal.message}"
        hanging(console, " " * _INDENT, text, style="bold red")
    else:
        basis = f"{engine}: what it sets aside"
        if layout.rank_count > 1:
            largest = format_bytes(layout.largest_rank)
            basis += f" on {layout.rank_count} ranks, at most {largest} each"
        console.print(
            f"{format_bytes(layout.bytes):>12}  {basis} ({layout.bytes:,} bytes)", style="bold"
        )
    if layout.request_blocks and layout.bytes_per_block:
        widest = max(layout.bytes_per_block)
        needed = layout.request_blocks * widest
        console.print(
            f"{'':14}one request: {layout.request_blocks:,} blocks of {widest:,} bytes"
            f" = {needed:,} ({format_bytes(needed)})"
        )
    for reason in layout.reasons:
        under(reason)
    defaults = "" if sources else defaults_line(layout)
    if defaults:
        under(f"defaults it applied: {defaults} (--explain-layout says where they come from)")
