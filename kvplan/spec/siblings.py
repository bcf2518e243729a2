"""The model to use instead when a context is too long: same family, same cache, longer maximum."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.errors import SpecError
from kvplan.spec.catalogue import Catalogue, Entry
from kvplan.spec.model import ModelSpec


def longer_sibling(spec: ModelSpec, ctx: int, specs: Sequence[str] | None) -> ModelSpec | None:
    """The sibling with the smallest maximum that still holds `ctx` tokens, or None."""
    if spec.family is None:
        return None
    best: ModelSpec | None = None
    for entry in Catalogue(specs).entries(holding=spec.family, as_known=True):
        if entry.text("family") != spec.family or entry.name == spec.name:
            continue
        other = _spec(entry)
        if (
            other is None
            or other.max_context is None
            or other.max_context < ctx
            or not _same_cache(spec, other)
        ):
            continue
        if best is None or (other.max_context, other.name) < (best.max_context, best.name):
            best = other
    return best


def _spec(entry: Entry) -> ModelSpec | None:
    """An entry's model; a file that is no spec is nothing to recommend."""
    try:
        return entry.spec()
    except SpecError:
        return None


def _same_cache(one: ModelSpec, other: ModelSpec) -> bool:
    """Every layer keeps the same states, whatever the specs call them."""
    if len(one.layers) != len(other.layers):
        return False
    pairs = zip(one.layers, other.layers, strict=True)
    return all(one.kinds[mine] == other.kinds[theirs] for mine, theirs in pairs)
