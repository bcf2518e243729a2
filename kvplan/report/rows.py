"""Flat rows of a result, for the formats that are tables of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvplan.report.facts import layer_facts, size_facts

if TYPE_CHECKING:
    from kvplan.plan.size import SizeResult


def size_rows(results: Sequence[SizeResult], *, per_layer: bool) -> list[dict[str, Any]]:
    """One row per result, or one per layer of each result."""
    rows = []
    for result in results:
        facts = size_facts(result)
        head = {
            "model": facts["model"]["name"],
            "dtype": facts["request"]["dtype"],
            "ctx": facts["request"]["ctx"],
            "batch": facts["request"]["batch"],
        }
        if per_layer:
            rows += [
                {**head, **layer, "states": "+".join(layer["states"])}
                for layer in layer_facts(result)
            ]
            continue
        allocated = facts["allocated"]
        logical = {
            f"logical_{key}": value for key, value in facts["logical"].items() if key != "kinds"
        }
        charged = {}
        if result.charges is not None:
            held = result.charges.ranks
            charged = {
                "allocator_allocated_bytes": sum(charge.allocated for charge in held),
                "allocator_reserved_bytes": sum(charge.reserved for charge in held),
            }
        rows.append(
            {
                **head,
                "attention": facts["model"]["attention"],
                **logical,
                "engine": facts["request"]["engine"],
                "engine_version": facts["request"]["engine_version"] or "",
                "allocated_bytes": allocated["bytes"] if allocated else "",
                **charged,
                "weights_bytes": result.weights.bytes if result.weights else "",
                "warnings": " ".join(warning["id"] for warning in facts["warnings"]),
            }
        )
    return rows


def text_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose lists are joined and whose missing values are empty."""
    return {
        key: "" if value is None else " ".join(value) if isinstance(value, list) else value
        for key, value in row.items()
    }
