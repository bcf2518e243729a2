"""Markdown: a table that a pull request or a wiki shows, under the headings of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.printable import visible
from kvplan.report.rows import Row

# What a key is called on a page, where its own name with blanks does not read so.
_HEADINGS = {
    "name": "check",
    "ctx": "tokens",
    "batch": "sequences",
    "max_context": "context",
    "hf_ids": "Hugging Face ids",
    "logical_bytes": "logical (bytes)",
    "logical_bytes_per_sequence": "per sequence (bytes)",
    "bytes_per_sequence": "per sequence (bytes)",
    "logical_bytes_per_token": "one more token (bytes)",
    "bytes_per_token": "one more token (bytes)",
    "logical_fixed_bytes_per_sequence": "fixed state (bytes)",
    "max_batch_at_ctx": "sequences that fit",
    "max_ctx_at_batch": "tokens that fit",
    "min_devices": "devices at least",
    "needed_bytes_one_request": "one request (bytes)",
    "binding_limit": "limit",
    "layer_kind": "kind of layer",
    "states": "keeps",
    "why": "what it is",
}

# What a reader of Markdown would obey: cells, HTML, links and images, code, emphasis.
_OBEYED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{char: f"\\{char}" for char in "\\|[]`*"}}
)


def dump(rows: Sequence[Row]) -> str:
    """The text of a Markdown table; numbers are right-aligned."""
    if not rows:
        return ""
    names = list(rows[0])
    right = [any(isinstance(row[name], (int, float)) for row in rows) for name in names]
    headings = [_heading(name, first=not place) for place, name in enumerate(names)]
    lines = [_line(headings), _line(["---:" if figures else "---" for figures in right])]
    lines += [_line([_cell(row[name]) for name in names]) for row in rows]
    return "\n".join(lines) + "\n"


def _heading(name: str, *, first: bool) -> str:
    if first and name == "name":
        return "model"
    if name in _HEADINGS:
        return _HEADINGS[name]
    words = name.replace("_", " ")
    return f"{words.removesuffix(' bytes')} (bytes)" if words.endswith(" bytes") else words


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return visible(str(value)).translate(_OBEYED).replace("\n", " ")
