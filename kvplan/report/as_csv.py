"""CSV (RFC 4180): a header, one row per result, bytes as integers.

A spreadsheet takes a text that begins with `=`, `+`, `-` or `@` for a formula, and formulas can run
programs. Such a text gets an apostrophe before it, which a spreadsheet does not show.
Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from kvplan.printable import visible
from kvplan.report.rows import Row

# The wide forms of East Asian keyboards count as well, and so does what blanks stand before.
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_BLANK = ("\t", "\n", "\r")


def dump(rows: Sequence[Row]) -> str:
    """The text of a CSV report; the header names the keys."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = visible(value)
    begins = text.lstrip()[:1] or text[:1]
    return f"'{text}" if (begins in _FORMULA and begins) or text.startswith(_BLANK) else text
