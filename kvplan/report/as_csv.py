"""CSV (RFC 4180): a header, one row per result, bytes as integers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from kvplan.report.rows import Row


def dump(rows: Sequence[Row]) -> str:
    """The text of a CSV report; the header names the keys."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
