"""A spec or a config.json: how a text without a telling name is told apart.

A spec may be written in braces, and JSON is YAML, so the first character does not decide. The keys
do: a spec has `layers`, and `attention` or `kinds`. A text in braces whose first key stands in no
double quotes is no JSON, hence no config.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.documents.document import Document
from kvplan.documents.from_json import read_json
from kvplan.documents.from_yaml import read_yaml
from kvplan.errors import InputError


def is_spec(text: str) -> bool:
    """Whether a text is to be read as a spec."""
    inside = text.strip()
    if not inside.startswith("{") or inside[1:].lstrip()[:1] not in ('"', "}", ""):
        return True
    if '"layers"' not in text:  # spares a config the reading
        return False
    data = _read(read_json, text) or _read(read_yaml, text)
    return isinstance(data, dict) and "layers" in data and ("attention" in data or "kinds" in data)


def _read(read: Callable[[str, str], Document], text: str) -> Any:
    """The data of a text, None if it cannot be read."""
    try:
        return read(text, "").data
    except InputError:
        return None
