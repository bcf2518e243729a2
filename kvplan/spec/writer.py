"""A `ModelSpec` as a YAML text that a person can read and edit, and that reads back the same.

Comments (where a fact came from) can be put behind every top-level key and every kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.spec.model import ModelSpec, Rope, Sizes
from kvplan.spec.runs import compress
from kvplan.spec.states import State
from kvplan.spec.vocabulary import NOTHING, PLAIN_KIND, model_words

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+()=-]+)*")
_RESERVED = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}


def write_spec(
    spec: ModelSpec, *, comments: Mapping[str, str] | None = None, header: Iterable[str] = ()
) -> str:
    """The YAML text of a spec.

    Args:
        spec: the model.
        comments: text to stand behind a line, by key: `max_context`, `layers`, `kinds.local`.
        header: comment lines on top.
    """
    notes = comments or {}
    lines = [f"# {_comment(line)}".rstrip() for line in header]

    def put(text: str, key: str) -> None:
        note = _comment(notes.get(key, ""))
        lines.append(f"{text}  # {note}" if note else text)

    for word in model_words().values():
        value = getattr(spec, word.name)
        if value is None or value == () or value == {}:
            continue
        put(f"{word.name}: {_flow(value)}", word.name)
    for name, facts in spec.variants.items():
        if "variants:" not in lines:
            lines.append("variants:")
        put(f"  {_scalar(name)}: {_flow(facts)}", f"variants.{name}")
    if spec.rope is not None:
        put(f"rope: {_flow(given_fields(spec.rope))}", "rope")
    if spec.sizes is not None:
        put(f"sizes: {_flow(given_fields(spec.sizes))}", "sizes")
    if _is_plain(spec):
        put(f"layers: {len(spec.layers)}", "layers")
        states = spec.kinds[PLAIN_KIND]
        put(f"attention: {_states(states, default='full')}", "attention")
    else:
        put("kinds:", "kinds")
        used = {*spec.layers, *spec.draft_layers}
        for name, states in spec.kinds.items():
            if name not in used:
                continue  # the reader takes one for a slip
            put(f"  {_scalar(name)}: {_states(states)}", f"kinds.{name}")
        put("layers:", "layers")
        lines += [f"  - {_flow(entry)}" for entry in compress(spec.layers)]
    if spec.draft_layers:
        put("draft_layers:", "draft_layers")
        lines += [f"  - {_flow(entry)}" for entry in compress(spec.draft_layers)]
    return "\n".join(lines) + "\n"


def _is_plain(spec: ModelSpec) -> bool:
    """Every layer is of the one kind that the short form calls `attention` and keeps something."""
    only = set(spec.kinds) == {PLAIN_KIND} and set(spec.layers) == {PLAIN_KIND}
    return only and bool(spec.kinds[PLAIN_KIND])


def _states(states: tuple[State, ...], default: str | None = None) -> str:
    if not states:
        return _flow({"kind": NOTHING})
    if len(states) == 1:
        return _flow(_state(states[0], default))
    return _flow([_state(state, None) for state in states])


def _state(state: State, default: str | None) -> dict[str, Any]:
    kind = {} if state.kind == default else {"kind": state.kind}
    return kind | given_fields(state)


def given_fields(owner: State | Rope | Sizes) -> dict[str, Any]:
    """The fields that say something, the kind's own first, in the order of the type."""
    items = {}
    for item in owner.fields():
        value = getattr(owner, item.name)
        if value is not None and value != item.default:
            items[item.name] = value
    return items


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        # YAML 1.1 reads 1e-05 as text; a point makes it a number.
        text = repr(value)
        return text if "e" not in text or "." in text else text.replace("e", ".0e")
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    """A character that YAML or a terminal takes for more than itself, as YAML escapes it."""
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _comment(text: str) -> str:
    """A text on one line, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
