"""The plain layout: every layer attends, with K and V per KV head, whole or through a window.

It reads the keys that most decoder-only families share: a list of layer types, or one window for
all layers, switched off by `use_sliding_window: false` and kept off the first `max_window_layers`.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.layout import (
    Layout,
    chunked,
    compact,
    drafts,
    every,
    full,
    layer_count,
    layer_names,
    sliding,
)
from kvplan.spec.states import FullAttention, State

# The words that transformers uses for kinds of attention layers (configuration_utils.py).
LAYER_TYPES = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "sliding_window_attention": "sliding",
    "local_attention": "sliding",
    "chunked_attention": "chunked",
}


def plain(facts: Facts) -> Layout:
    """Attention on every layer; a window where the config (or its class) declares one."""
    layers = layer_count(facts)
    state = full(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    if names is None:
        window = active_window(facts)
        if window is None:
            return uniform(facts, layers, state)
        first = first_windowed(facts, layers)
        if first == 0:
            return uniform(facts, layers, sliding(state, window))
        names = ("full",) * first + ("sliding",) * (layers - first)
    return mixed(facts, names, state)


def uniform(facts: Facts, layers: int, *states: State) -> Layout:
    """All layers keep the same."""
    kind = "attention"
    return Layout(kinds={kind: states}, layers=(kind,) * layers, draft=drafts(facts, kind))


def mixed(
    facts: Facts, names: tuple[str, ...], state: FullAttention, draft: str | None = None
) -> Layout:
    """Full, sliding and chunked layers with the same heads; drafts are full by default."""
    kinds: dict[str, tuple[State, ...]] = {"full": (state,)}
    extra = drafts(facts, draft or "full")
    if "sliding" in names or "sliding" in extra:
        kinds["sliding"] = (sliding(state, facts.count("window")),)
    else:
        facts.ignore(*facts.names("window"))
    if "chunked" in names:
        kinds["chunked"] = (chunked(state, facts.count("chunk", "attention_chunk_size")),)
    else:
        facts.ignore("attention_chunk_size")
    facts.ignore("use_sliding_window", "max_window_layers", "sliding_window_pattern")
    if len({*names, *extra}) == 1:
        return uniform(facts, len(names), *kinds[names[0]])
    return Layout(kinds=compact(kinds, names, extra), layers=names, draft=extra)


def active_window(facts: Facts) -> int | None:
    """The window in force, None without one or when `use_sliding_window` is false."""
    if not facts.flag("use_sliding_window", default=True):
        facts.ignore(*facts.names("window"), "max_window_layers")
        return None
    return facts.optional("window")


def first_windowed(facts: Facts, layers: int) -> int:
    """The first layer with a window (max_window_layers, of the Qwen 2 and 3 classes)."""
    first = facts.whole("max_window_layers", least=0)
    if first is None and facts.defaults is not None:
        value = facts.defaults.value("max_window_layers", nested=bool(facts.path))
        first = int(value) if value is not None else None
    return min(first or 0, layers)


def periodic(facts: Facts, *, key: str = "sliding_window_pattern", at: int | None = None) -> Layout:
    """One full layer in every period of windowed ones: Gemma, Cohere 2, gpt-oss, Olmo 3, EXAONE 4.

    `layer_types` wins; then the key's number, or its letters (`LLLG`: local and global); then the
    class default. `at` is the place of the full layer in its period, the last one by default.
    """
    layers = layer_count(facts)
    state = full(facts)
    names = layer_names(facts, "layer_types", layers, LAYER_TYPES)
    facts.ignore(key, "_sliding_window_pattern")
    if names is None and facts.optional("window") is None:
        return uniform(facts, layers, state)
    if names is None:
        pattern = facts.take(key)
        if isinstance(pattern, str):
            names = letters(facts, key, pattern, layers)
        else:
            names = every(layers, facts.count("period", key), "full", "sliding", at=at)
    return mixed(facts, names, state)


def letters(facts: Facts, key: str, pattern: str, layers: int) -> tuple[str, ...]:
    """A pattern such as `LLLG`, repeated over the layers."""
    meanings = {"L": "sliding", "S": "sliding", "G": "full", "F": "full"}
    if not pattern or any(letter not in meanings for letter in pattern.upper()):
        facts.refuse(f"{key} is {pattern!r}, it must be made of L (local) and G (global)", key=key)
    facts.note("layers by kind", pattern, facts.origin(key))
    return tuple(meanings[pattern.upper()[index % len(pattern)]] for index in range(layers))
