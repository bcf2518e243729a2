"""The page of `kvplan fit`: the verdict first, then how far the memory reaches, then the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.plan.fit import CONTEXT, ENGINE, FLAG
from kvplan.report.headings import ANY_LENGTH, asked, length
from kvplan.report.prose import hanging, warnings
from kvplan.report.provenance import print_defaults
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes, format_count

if TYPE_CHECKING:
    from kvplan.engines.layout import Plan
    from kvplan.plan.fit import Fit
    from kvplan.report.console import Console

# Engines that print capacity_tokens and max_concurrency when they start.
_LOGS = ("vllm",)


def page(console: Console, found: Fit) -> None:
    """Print the whole page."""
    spec, logical, plan = found.model.spec, found.logical, found.plan
    basis = plan.engine if plan.whole_model else f"{plan.engine} {plan.version}"
    sequences = format_count(logical.batch, "sequence")
    about = f"{attention_label(spec)}; {asked(spec, logical)}, basis {basis}"
    hanging(console, f"{found.model.title}: ", about)
    console.print()
    verdict = "fits" if found.fits else "does not fit"
    console.print(verdict, style="bold green" if found.fits else "bold red")
    _line(console, "needed", _needed(found))
    if not plan.whole_model:
        _line(console, "", f"{_size(logical.bytes)} must be kept (logical, whole model)")
    whose = " for the cache" if plan.whole_model else " for the cache of one rank"
    _line(console, "available", f"{_size(found.available_bytes)}{whose}{_spare(found)}")
    if plan.refusal:
        console.print()
        heading = f"{plan.engine} refuses to start: "
        hanging(console, heading, plan.refusal.message, style="red")
    console.print()
    _line(console, "sequences", _sequences(found))
    _line(console, "context", f"{_context(found)} for {sequences}{_limit(found)}")
    _line(console, "devices", _devices(found))
    if not plan.whole_model:
        _plan(console, plan, explain=found.explain)
    warnings(console, found.warnings)


def _sequences(found: Fit) -> str:
    """How many fit, and of which length where that matters."""
    batch, tokens = found.max_batch_at_ctx, length(found.model.spec, found.logical)
    if tokens == ANY_LENGTH:
        return "any number of any length" if batch is None else f"{batch:,} of any length"
    return f"{'any number' if batch is None else f'{batch:,}'} of {tokens}"


def _needed(found: Fit) -> str:
    """What has to fit, and when; an engine may hold less afterwards."""
    if found.needed_bytes is None:
        return "not known, because the engine refuses the request"
    if found.plan.whole_model:
        return _size(found.needed_bytes)
    plan = found.plan
    text = f"{_size(found.needed_bytes)} on the fullest rank"
    afterwards = plan.afterwards_bytes
    if afterwards is None or afterwards >= found.needed_bytes:
        return text
    moment = "right after the prefill" if plan.peak_moment == "prefill" else "at its peak"
    return f"{text}, {moment}; {_size(afterwards)} afterwards"


def _spare(found: Fit) -> str:
    """How close it is: rounded figures may look equal."""
    spare = found.spare_bytes
    if spare is None:
        return ""
    return f", {format_bytes(spare)} to spare" if spare >= 0 else f", {format_bytes(-spare)} short"


def _context(found: Fit) -> str:
    if found.max_ctx_at_batch is None:
        return "any (a fixed state)"
    return format_count(found.max_ctx_at_batch, "token")


def _limit(found: Fit) -> str:
    maximum = found.model.spec.max_context
    own = " (the model's maximum)"
    if maximum is not None and found.max_ctx_at_batch != maximum:
        own = f" (above the {maximum:,} of the model itself)"
    limits = {
        CONTEXT: own,
        FLAG: " (the engine's max_model_len)",
        ENGINE: " (the engine refuses)",
    }
    return limits.get(found.binding_limit or "", "")


def _devices(found: Fit) -> str:
    if found.min_devices is None:
        if not found.plan.whole_model:
            return f"no number of this size that {found.plan.engine} can split it over"
        return "no number of devices of this size holds it"
    return f"at least {format_count(found.min_devices, 'device')} of this size"


def _plan(console: Console, plan: Plan, *, explain: bool) -> None:
    lines = []
    if plan.num_blocks is not None:
        width = " / ".join(f"{size:,}" for size in dict.fromkeys(plan.bytes_per_block))
        of = f" of {width} bytes" if width else ""
        lines.append(("blocks", f"{plan.num_blocks:,}{of}, {plan.block_size} tokens each"))
    tokens, concurrency = plan.capacity_tokens, plan.max_concurrency
    if plan.engine in _LOGS and tokens is not None and concurrency is not None:
        lines.append(("vllm prints", f"{tokens:,} tokens, concurrency {concurrency:.2f}x"))
    if lines or plan.reasons:
        console.print(f"\n{plan.engine} {plan.version}", style="bold")
    for label, text in lines:
        _line(console, label, text)
    for reason in plan.reasons:
        hanging(console, "  ", reason)
    if explain:
        print_defaults(console, plan)


def _line(console: Console, label: str, text: str) -> None:
    hanging(console, f"{label:<14}", text)


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} bytes)"
