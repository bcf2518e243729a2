"""CSV (RFC 4180): a header, one row per result, bytes as integers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from kvplan.report.facts import model_rows
from kvplan.report.rows import size_rows, text_row


def dump(rows: Sequence[dict[str, Any]]) -> str:
    """The text of a CSV report."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def size(results: Any, *, to_file: bool, per_layer: bool = False, layout: bool = False) -> str:
    """`kvplan size --format csv`."""
    return dump(size_rows(results, per_layer=per_layer))


def models(results: Any, *, to_file: bool) -> str:
    """`kvplan models --format csv`."""
    return dump([text_row(row) for row in model_rows(results)])


def verify(result: Any, *, to_file: bool) -> str:
    """`kvplan verify --format csv`."""
    from kvplan.report.verification import verification_rows

    return dump(verification_rows(result))
