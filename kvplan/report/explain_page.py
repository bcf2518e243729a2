"""The page of `kvplan explain`: products one factor per line, then two small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.dtypes import CacheDTypes
from kvplan.engines.logical import StateShare
from kvplan.report.console import Column
from kvplan.report.formula import parts, state_sum
from kvplan.report.headings import in_format, length
from kvplan.report.prose import hanging, warnings
from kvplan.report.tables import print_table
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes, format_count

if TYPE_CHECKING:
    from kvplan.plan.explain import Explanation
    from kvplan.report.console import Console

_COLUMN = 16


def page(console: Console, found: Explanation) -> None:
    """Print the whole page."""
    result = found.size
    spec, logical = result.model.spec, result.logical
    layers = format_count(len(spec.layers), "layer")
    console.print(f"{result.model.title}: {attention_label(spec)}, {layers}", style="bold")
    what = f"one sequence of {length(spec, logical)} keeps{in_format(logical, ', in ')}"
    console.print(f"\nWhat {what}\n", style="bold")
    for share in logical.shares:
        _product(console, share, logical.dtypes)
    total = logical.bytes_per_sequence
    console.print(
        f"{total:>{_COLUMN},}   bytes of one sequence ({format_bytes(total)})", style="bold"
    )
    if logical.batch > 1:
        console.print(f"x {logical.batch:>{_COLUMN - 2},}   sequences")
        console.print(
            f"{logical.bytes:>{_COLUMN},}   bytes ({format_bytes(logical.bytes)})", style="bold"
        )
    _variants(console, found)
    _generation(console, found)
    _decode(console, found)
    warnings(console, result.warnings)


def _product(console: Console, share: StateShare, dtypes: CacheDTypes) -> None:
    state = share.state
    console.print(f"{state.summary} ({state.detail})" if state.detail else state.summary)
    lines = [(f"{share.layers:,}", "layers" if share.layers > 1 else "layer")]
    if state.fixed:
        lines.append((f"{share.entry_bytes:,} B", f"of state: {state_sum(state, dtypes)}"))
    elif share.entry_bytes:
        lines.append((f"{share.entries:,}", state.entry_name))
        lines += [(part.value, part.meaning) for part in parts(state, dtypes)]
    for index, (value, meaning) in enumerate(lines):
        hanging(console, f"{'x' if index else ' '} {value:>{_COLUMN - 2}}   ", meaning)
    amount = share.bytes_per_sequence
    console.print(f"= {amount:>{_COLUMN - 2},}   bytes ({format_bytes(amount)})\n")


def _variants(console: Console, found: Explanation) -> None:
    own = found.size.logical.bytes_per_sequence
    console.print("\nThe same model with another attention, one sequence\n", style="bold")
    columns = (
        Column(""), Column("bytes", "right"), Column("times", "right"),
        Column("what it keeps", rank=1, least=20),
    )  # fmt: skip
    rows = []
    for variant in found.variants:
        bytes_ = variant.bytes_per_sequence
        known = bytes_ is not None and own > 0
        shown = format_bytes(bytes_) if bytes_ is not None else "not known"
        times = f"{bytes_ / own:,.2f}" if known and bytes_ is not None else ""
        rows.append([variant.name, shown, times, variant.meaning])
    print_table(console, columns, rows)


def _generation(console: Console, found: Explanation) -> None:
    from kvplan.plan.explain import CAVEAT

    console.print("\nAttention work to generate n tokens, per head and layer\n", style="bold")
    columns = (
        Column("n", "right"), Column("without a cache", "right"),
        Column("with a cache", "right", rank=1),
        Column("ratio (2n + 1)/3", "right"), Column("about 2n/3", "right", rank=2),
    )  # fmt: skip
    rows = [
        [
            f"{item.tokens:,}", f"{item.without_cache:,}", f"{item.with_cache:,}",
            f"{float(item.ratio):,.2f}", f"{float(item.approximation):,.2f}",
        ]
        for item in found.generations
    ]  # fmt: skip
    print_table(console, columns, rows)
    console.print(f"\nsum(t^2) = n(n + 1)(2n + 1)/6 against sum(t) = n(n + 1)/2. {CAVEAT}")


def _decode(console: Console, found: Explanation) -> None:
    logical = found.size.logical
    if not logical.bytes:
        return
    console.print("\nThe price at decode\n", style="bold")
    milliseconds = logical.bytes / 10**12 * 1000
    sequences = "the sequence" if logical.batch == 1 else f"all {logical.batch:,} sequences"
    console.print(
        f"Each decode step reads the cache of {sequences} once: {format_bytes(logical.bytes)}. At"
        f" 1 TB/s of memory bandwidth that alone takes {milliseconds:,.2f} ms, beside the weights;"
        " attention that is sparse reads less than it keeps."
    )
    if found.decode is not None:
        from kvplan.report.decode_lines import print_decode

        print_decode(console, found.decode, found.devices)
