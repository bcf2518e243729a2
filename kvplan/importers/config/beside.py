"""What stands beside the text config of a wrapper: nothing there may contradict or add to it.

A multimodal file holds its text model in an object of its own, and around it towers, tokens and
copies of the text model's keys. A copy that says otherwise is a contradiction; a key that speaks of
the cache is refused as it would be inside; of a wrapper that nobody knows, every key is that is not
known to be harmless, as for an unknown model type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.documents.document import Path
from kvplan.importers.config import hints
from kvplan.importers.config.aliases import ALIASES, TEXT_KEYS
from kvplan.importers.config.facts import Facts
from kvplan.importers.config.wrappers import TEXT_TYPES

# Facts of which a wrapper may hold a copy.
_COPIED = ("layers", "heads", "kv_heads", "head_dim", "window")
_FIELDS = {key: field for field in _COPIED for key in ALIASES[field]}
# Around a known text model stand the sizes of its towers, so only what is the text model's own
# counts: its attention and its cache.
_OWN = re.compile(
    "attn|attention|cross|latent|lora_rank|sliding|layer_types|ssm|mamba|recurr|cache|memory|mixer"
    "|evict|yoco|index_topk|compress|(?:^|_)kvs?(?:_|$)"
)


def check(facts: Facts) -> None:
    """Refuse a wrapper that contradicts its text config, or adds to it what shapes the cache.

    Raises:
        ImportRefused: names the key, and what the text config says where the two differ.
    """
    wrapper = facts.source.data.get("model_type")
    known = isinstance(wrapper, str) and wrapper in TEXT_TYPES
    suspects: list[tuple[Path, Any]] = []
    for path, value in _around(facts):
        key = str(path[-1])
        if key in TEXT_KEYS and isinstance(value, Mapping):
            _compare_configs(facts, path, value)
        elif _unused_window(facts, path) or _same_start(facts, key, value):
            continue
        elif _FIELDS.get(key) in facts.found and not (known and key == "head_dim"):
            _compare(facts, path, value)
        elif known and not _OWN.search(hints.words(key)):
            continue
        elif facts.data.get(key) != value:
            suspects += hints.suspects(path, value, known=known)
    hints.refuse_all(facts, suspects)


def _unused_window(facts: Facts, path: Path) -> bool:
    """A window that the object around it switches off (Qwen2.5-VL, saved by transformers 5)."""
    data: Any = facts.source.data
    for key in path[:-1]:
        data = data[key]
    return path[-1] in ALIASES["window"] and data.get("use_sliding_window") is False


def _same_start(facts: Facts, key: str, value: Any) -> bool:
    """A list of layer types that is the text model's, with or without its draft layers."""
    own = facts.data.get(key)
    if key != "layer_types" or not isinstance(value, list) or not isinstance(own, list):
        return False
    count = min(len(value), len(own))
    layers = facts.found.get("layers")
    return layers is not None and count >= int(layers.value) and value[:count] == own[:count]


def _around(facts: Facts) -> Iterator[tuple[Path, Any]]:
    """The keys of every object on the way to the text config, and their values."""
    data: Any = facts.source.data
    for depth, inward in enumerate(facts.path):
        for key, value in data.items():
            if key != inward:
                yield (*facts.path[:depth], key), value
        data = data[inward]


def _compare_configs(facts: Facts, path: Path, other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if key in _FIELDS:
            _compare(facts, (*path, key), value)


def _compare(facts: Facts, path: Path, value: Any) -> None:
    field = _FIELDS[str(path[-1])]
    found = facts.found.get(field)
    if value is None or found is None or found.value is None or found.value == value:
        return
    name = ".".join(map(str, path))
    inside = ".".join(map(str, facts.path))
    facts.refuse(
        f"{name} is {value!r}, where the text model in {inside} has {found.value!r} "
        f"({found.origin}): they contradict each other"
    )
