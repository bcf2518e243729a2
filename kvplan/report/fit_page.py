"""The page of `kvplan fit`: the verdict first, then how far the memory reaches, then the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.plan.fit import CONTEXT, ENGINE
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from kvplan.engines.layout import CacheLayout
    from kvplan.plan.fit import Fit


def page(console: Console, found: Fit) -> None:
    """Print the whole page."""
    spec, logical = found.model.spec, found.logical
    basis = f"{found.plan.engine} {found.plan.version}" if found.plan else "logical"
    sequences = "1 sequence" if logical.batch == 1 else f"{logical.batch:,} sequences"
    console.print(
        f"{spec.name}: {attention_label(spec)}; {logical.ctx:,} tokens x {sequences},"
        f" {logical.dtypes.k.name}, basis {basis}\n"
    )
    verdict = "fits" if found.fits else "does not fit"
    console.print(verdict, style="bold green" if found.fits else "bold red")
    needed = "not known" if found.needed_bytes is None else _size(found.needed_bytes)
    _line(console, "needed", f"{needed} on the fullest rank")
    if found.plan is not None:
        _line(console, "", f"{_size(logical.bytes)} must be kept (logical, whole model)")
    _line(console, "available", f"{_size(found.available_bytes)} for the cache of one rank")
    if found.plan is not None and found.plan.refusal:
        console.print()
        console.print(f"{found.plan.engine} says: {found.plan.refusal}", style="red")
    console.print()
    _line(console, "sequences", f"{_count(found.max_batch_at_ctx)} of {logical.ctx:,} tokens")
    _line(
        console,
        "context",
        f"{_count(found.max_ctx_at_batch)} tokens for {sequences}{_limit(found)}",
    )
    _line(console, "devices", _devices(found))
    if found.plan is not None:
        _plan(console, found.plan)
    for warning in found.model.warnings:
        console.print(f"\nwarning: {warning.message} [{warning.id}]", style="yellow")


def _limit(found: Fit) -> str:
    if found.binding_limit == CONTEXT:
        return " (the model's maximum)"
    return " (the engine refuses)" if found.binding_limit == ENGINE else ""


def _devices(found: Fit) -> str:
    if found.min_devices is None:
        return "no number of such devices holds it"
    return f"{found.min_devices:,} such device{'s' if found.min_devices > 1 else ''} at least"


def _plan(console: Console, plan: CacheLayout) -> None:
    figures = plan.figures
    console.print(f"\n{plan.engine} {plan.version}", style="bold")
    if figures.get("num_blocks") is not None:
        per_block = figures.get("bytes_per_block") or []
        width = " / ".join(f"{size:,}" for size in dict.fromkeys(per_block))
        _line(
            console,
            "blocks",
            f"{figures['num_blocks']:,} of {width} bytes, {figures['block_size']} tokens",
        )
    if figures.get("capacity_tokens") is not None and figures.get("max_concurrency") is not None:
        _line(
            console,
            "its log line",
            f"{figures['capacity_tokens']:,} tokens, concurrency {figures['max_concurrency']:.2f}x",
        )
    for reason in plan.reasons:
        console.print(f"  {reason}")
    if plan.provenance:
        console.print("\ndefaults it applied", style="bold")
    for item in plan.provenance:
        console.print(f"  {item.option} = {item.value}  ({item.origin})")


def _line(console: Console, label: str, text: str) -> None:
    console.print(f"{label:<14}{text}")


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} bytes)"


def _count(count: int | None) -> str:
    return "any number" if count is None else f"{count:,}"
