"""What the allocator charges, rank by rank, for `kvplan size --allocator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.allocator.charges import Charges


def charges_facts(charges: Charges) -> dict[str, Any]:
    """The `allocator` object of a size in JSON."""
    return {
        "torch": charges.torch,
        "options": charges.options,
        "per_rank": [
            {
                "rank": charge.rank,
                "formula_bytes": charge.formula,
                "allocated_bytes": charge.allocated,
                "reserved_bytes": charge.reserved,
            }
            for charge in charges.ranks
        ],
    }


def charges_lines(charges: Charges) -> list[str]:
    """`formula 125.00 MiB, allocated 127.81 MiB, reserved 140.00 MiB`, once for equal ranks."""
    options = charges.options or "default options"
    lines = [f"torch {charges.torch} CUDA allocator, {options}:"]
    by_figures: dict[tuple[int, ...], list[int]] = {}
    for charge in charges.ranks:
        by_figures.setdefault(charge[1:], []).append(charge.rank)
    for (formula, allocated, reserved), ranks in by_figures.items():
        who = "" if len(charges.ranks) == 1 else f"{_span(ranks)}: "
        lines.append(
            f"{who}formula {format_bytes(formula)}, allocated {format_bytes(allocated)},"
            f" reserved {format_bytes(reserved)} ({formula:,} / {allocated:,} / {reserved:,} bytes)"
        )
    return lines


def _span(ranks: list[int]) -> str:
    """`rank 3`, `each of ranks 0-7`, `each of 5 ranks from 0 to 8`."""
    first, last = ranks[0], ranks[-1]
    if len(ranks) == 1:
        return f"rank {first}"
    if last - first + 1 == len(ranks):
        return f"each of ranks {first}-{last}"
    return f"each of {len(ranks)} ranks from {first} to {last}"
