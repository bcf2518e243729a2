"""The values an engine settled by itself: all of them with their sources, or in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.report.prose import hanging

if TYPE_CHECKING:
    from kvplan.engines.layout import Plan
    from kvplan.report.console import Console

_NAMED_ELSEWHERE = ("version",)  # a warning says it


def print_defaults(console: Console, layout: Plan) -> None:
    """One line per value: what it became, and by which rule."""
    items = [item for item in layout.provenance if item.option not in _NAMED_ELSEWHERE]
    if items:
        console.print("\ndefaults it applied", style="bold")
    for item in items:
        hanging(console, f"  {item.option} = {item.value}  ", f"({item.origin})")


def defaults_line(layout: Plan) -> str:
    """The values alone, empty when there is none."""
    items = [item for item in layout.provenance if item.option not in _NAMED_ELSEWHERE]
    return ", ".join(f"{item.option} {item.value}" for item in items)
