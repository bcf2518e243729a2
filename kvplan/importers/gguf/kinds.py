"""Names for kinds of layers: equal layers share one, and a reader can tell the kinds apart."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.importers.gguf.layers import Layer
from kvplan.spec.states import CompressedLatent, FullAttention, HeadState, SharedCache, State
from kvplan.spec.vocabulary import NOTHING, PLAIN_KIND


def name_kinds(layers: Sequence[Layer]) -> tuple[dict[str, tuple[State, ...]], list[str]]:
    """Kind name -> states, and the name of every layer.

    A model whose layers are all alike and plain gets the name that the short form of a spec uses.
    """
    kinds: dict[str, tuple[State, ...]] = {}
    known: dict[tuple[State, ...], str] = {}
    names: list[str] = []
    plain = len({layer.states for layer in layers}) == 1 and isinstance(
        next(iter(layers[0].states), None), FullAttention
    )
    for layer in layers:
        states = tuple(_readable(state, names) for state in layer.states)
        if states not in known:
            name = PLAIN_KIND if plain and len(states) == 1 else _name(states, names)
            known[states] = _unused(name, states, kinds)
            kinds[known[states]] = states
        names.append(known[states])
    return kinds, names


def _readable(state: State, names: list[str]) -> State:
    """A shared layer names the kind it reads if that means the same layer."""
    if not isinstance(state, SharedCache) or not isinstance(state.reads, int):
        return state
    owner = names[state.reads]
    nearest = len(names) - 1 - names[::-1].index(owner)
    return state.replaced(reads=owner) if nearest == state.reads else state


def _name(states: tuple[State, ...], names: list[str]) -> str:
    parts = []
    for state in states:
        if isinstance(state, SharedCache):
            reads = names[state.reads] if isinstance(state.reads, int) else state.reads
            parts.append(f"{reads}-shared")
        elif isinstance(state, CompressedLatent):
            parts.append(f"ratio-{state.ratio}" if state.ratio else "window")
        else:
            parts.append(state.kind)
    return "+".join(parts) or NOTHING


def _unused(name: str, states: tuple[State, ...], kinds: dict[str, tuple[State, ...]]) -> str:
    if name not in kinds:
        return name
    first = states[0] if states else None
    if isinstance(first, HeadState) and f"{name}-{first.kv_heads}kv" not in kinds:
        return f"{name}-{first.kv_heads}kv"
    number = 2
    while f"{name}-{number}" in kinds:
        number += 1
    return f"{name}-{number}"
