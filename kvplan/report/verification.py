"""A verification by the contract's names: what every machine-readable format prints of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.report.facts import layout_facts, model_facts, request_facts

if TYPE_CHECKING:
    from kvplan.checks import Check, Verification


def check_facts(check: Check) -> dict[str, Any]:
    """One entry of `checks`; `ok` is null where nothing could be decided."""
    return {
        "name": check.name,
        "predicted": check.predicted,
        "measured": check.measured,
        "difference": check.difference,
        "tolerance": check.tolerance,
        "unit": check.unit,
        "ok": check.ok,
        "why": check.why,
    }


def verification_facts(found: Verification) -> dict[str, Any]:
    """The object of `kvplan.verify/1`, without its schema's name."""
    layout, size = found.layout, found.size
    return {
        "model": model_facts(size.model) if size else None,
        "request": request_facts(size.request, size.logical, layout or size.allocated)
        if size
        else None,
        "device": dict(found.device),
        "layout": None
        if layout is None
        else {"engine": layout.engine, "engine_version": layout.version, **layout_facts(layout)},
        "logical_bytes": size.logical.bytes if size else None,
        "checks": [check_facts(check) for check in found.checks],
        "ranks": [
            {
                "rank": report.rank,
                "device": dict(report.device),
                "checks": [check_facts(check) for check in report.checks],
                "notes": list(report.notes),
            }
            for report in found.ranks
        ],
        "notes": list(found.notes),
        "warnings": [{"id": w.id, "message": w.message} for w in size.warnings] if size else [],
        "ok": found.ok,
    }


def verification_rows(found: Verification) -> list[dict[str, Any]]:
    """One row per check: those of each rank where there are several, then those over all."""
    several = found.ranks if len(found.ranks) > 1 else ()
    checks = [(str(report.rank), check) for report in several for check in report.checks]
    checks += [("all", check) for check in found.checks]
    return [
        {
            "model": model_name(found),
            "engine": found.layout.engine if found.layout else "",
            "rank": rank,
            **check_facts(check),
        }
        for rank, check in checks
    ]


def model_name(found: Verification) -> str:
    """The model's name, empty when a running engine's is not known."""
    return found.size.model.spec.name if found.size else ""


def verdict(check: Check) -> str:
    """`ok`, `FAILED`, or `?` where nothing could be decided."""
    return "?" if check.ok is None else "ok" if check.ok else "FAILED"
