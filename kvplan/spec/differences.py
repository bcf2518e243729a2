"""What tells models apart that one name may mean: the facts in which their caches differ."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import HeadState, SlidingAttention


def told_apart(specs: Sequence[ModelSpec]) -> list[str]:
    """Each model's name with the facts that are not the same for all: `x (8 KV heads)`."""
    facts = [_facts(spec) for spec in specs]
    differing = [key for key in _KEYS if len({each[key] for each in facts}) > 1]
    return [
        spec.name + (f" ({', '.join(each[key] for key in differing)})" if differing else "")
        for spec, each in zip(specs, facts, strict=True)
    ]


_KEYS = ("attention", "layers", "kv_heads", "window", "context")


def _facts(spec: ModelSpec) -> dict[str, str]:
    states = list(spec.states())
    heads = sorted({state.kv_heads for state in states if isinstance(state, HeadState)})
    windows = sorted({state.window for state in states if isinstance(state, SlidingAttention)})
    return {
        "attention": attention_label(spec),
        "layers": f"{len(spec.layers)} layers",
        "kv_heads": f"{' and '.join(map(str, heads)) or 'no'} KV heads",
        "window": f"window {windows[0]:,}" if windows else "no window",
        "context": f"context {spec.max_context:,}" if spec.max_context else "context not known",
    }
