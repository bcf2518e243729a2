"""A spec or a config.json: how a text without a telling name is told apart.

A spec may be written in braces, and JSON is YAML, so the first character does not decide. The keys
do: a spec has `layers`, and `attention` or `kinds`. A text in braces whose first key stands in no
double quotes is no JSON, hence no config.
"""

from __future__ import annotations

from kvplan.errors import SpecError
from kvplan.spec.source import parse_yaml


def is_spec(text: str) -> bool:
    """Whether a text is to be read as a spec."""
    inside = text.strip()
    if not inside.startswith("{") or inside[1:].lstrip()[:1] not in ('"', "}", ""):
        return True
    if '"layers"' not in text:  # spares a config the reading
        return False
    try:
        data = parse_yaml(text, "").data
    except SpecError:
        return False
    return isinstance(data, dict) and "layers" in data and ("attention" in data or "kinds" in data)
