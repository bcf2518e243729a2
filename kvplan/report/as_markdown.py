"""Markdown: a table that a pull request or a wiki shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.report.facts import model_rows
from kvplan.report.rows import size_rows, text_row


def dump(rows: Sequence[dict[str, Any]]) -> str:
    """The text of a Markdown table; numbers are right-aligned."""
    if not rows:
        return ""
    names = list(rows[0])
    rule = ["---:" if isinstance(rows[0][name], int) else "---" for name in names]
    lines = [_line(names), _line(rule)]
    lines += [_line([_cell(row[name]) for name in names]) for row in rows]
    return "\n".join(lines) + "\n"


def size(results: Any, *, to_file: bool, per_layer: bool = False, layout: bool = False) -> str:
    """`kvplan size --format markdown`."""
    return dump(size_rows(results, per_layer=per_layer))


def models(results: Any, *, to_file: bool) -> str:
    """`kvplan models --format markdown`."""
    return dump([text_row(row) for row in model_rows(results)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def verify(result: Any, *, to_file: bool) -> str:
    """`kvplan verify --format markdown`."""
    from kvplan.report.verification import verification_rows

    return dump(verification_rows(result))
