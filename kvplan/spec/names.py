"""Names as people write them, and the names that come near one: for what was not found as written.

`Llama 3 70B`, `llama_3_70b` and Ollama's `llama3:70b` are all `llama3-70b`: blanks, `_` and `:` are
dashes, and a dash between a letter and a digit says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST = 5  # suggestions in one line

_SEPARATORS = re.compile(r"[\s_:-]+")
_SILENT_DASH = re.compile(r"(?<=[a-z])-(?=\d)")


def loosened(name: str) -> str:
    """A name without what people write one way or another."""
    return _SILENT_DASH.sub("", _SEPARATORS.sub("-", name.strip().lower()).strip("-"))


def answers(names: Sequence[str], query: str) -> bool:
    """Whether one of a model's names is the query, loosely, with or without organisation."""
    wanted = loosened(query)
    found = [loosened(name) for name in names]
    return wanted in found or wanted in (name.rpartition("/")[2] for name in found)


def holds(names: Sequence[str], text: str) -> bool:
    """Whether one of a model's names holds a text, as written or loosely."""
    plain, loose = text.strip().lower(), loosened(text)
    return any(plain in name.lower() or loose in loosened(name) for name in names)


def nearest(models: Iterable[Sequence[str]], query: str) -> list[str]:
    """Names like the query, one per model: what begins with it, what holds it, what is close.

    Args:
        models: the names of each model, its own first.
        query: what nothing answers to.
    """
    from difflib import get_close_matches

    wanted = loosened(query)
    if not wanted.strip("/"):
        return []
    ids = "/" in query  # then ids are compared and named, else what stands behind the organisation
    begins: dict[str, str] = {}  # a model's own name -> the name to show
    holding: dict[str, str] = {}
    close: dict[str, tuple[str, str]] = {}  # a form -> (the model's own name, the name to show)
    for names in models:
        shown = [name for name in names if ("/" in name) == ids]
        whole = {loosened(name): name for name in reversed(shown)}
        tails = () if ids else (loosened(name).rpartition("/")[2] for name in names)
        every = dict.fromkeys(tails, names[0]) | whole
        first = [name for form, name in every.items() if form.startswith(wanted)]
        if first:
            begins[names[0]] = names[0] if names[0] in first else min(first, key=len)
        elif any(wanted in loosened(name) for name in names):
            holding[names[0]] = names[0]
        for form, name in every.items():
            close.setdefault(form, (names[0], name))
    if begins or holding:
        return [*(begins[name] for name in sorted(begins)), *sorted(holding)]
    best: dict[str, str] = {}
    for form in get_close_matches(wanted, close, n=4 * MOST, cutoff=0.6):
        best.setdefault(*close[form])
    return list(best.values())
