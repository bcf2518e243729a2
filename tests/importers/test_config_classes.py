"""238 model types as their own configuration classes save them, against the layers they then name.

tests/data/configs/transformers_classes.json was recorded by running transformers 5.24.0: each class
with its defaults, saved as its config.json would be (keys without a say in the cache left out), and
what the class then reports: layers, layer types, KV heads, head size, window.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.importers.config import import_config
from kvplan.spec.recurrent import RecurrentState, ShortConvolution
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    SharedCache,
    SlidingAttention,
    State,
)

DATA = Path(__file__).parents[1] / "data" / "configs" / "transformers_classes.json"
MODELS: dict[str, dict[str, Any]] = json.loads(DATA.read_text())["models"]

# The class's words for what a layer keeps, where they are not the plain ones.
SAME = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "indexed_attention": "full_attention",
    "minimax_m3_sparse": "full_attention",
    "compressed_sparse_attention": "compressed",
    "heavily_compressed_attention": "compressed",
}


def word(states: tuple[State, ...]) -> str:
    """The class's word for a layer that keeps these states."""
    own = [state for state in states if not isinstance(state, (CrossAttention, Indexer))]
    if not own:
        return "cross" if states else "nothing"
    recurrent = [state for state in own if isinstance(state, RecurrentState)]
    if recurrent and len(own) > 1:
        return "hybrid"
    if isinstance(own[0], ShortConvolution):
        return "conv"
    if recurrent:
        return "linear_attention"
    kinds = {SlidingAttention: "sliding_attention", ChunkedAttention: "chunked_attention",
             CompressedLatent: "compressed", SharedCache: "shared"}  # fmt: skip
    return kinds.get(type(own[0]), "full_attention")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_layers_of_the_class(name: str) -> None:
    """Layers by kind, KV heads, head size and window equal the class's own."""
    recorded = MODELS[name]["class"]
    spec = import_config(MODELS[name]["config"]).spec
    blocks = sum(max(1, len(spec.kinds[layer])) for layer in spec.layers)
    two_per_layer = spec.model_type == "longcat_flash"  # which the class counts as two layers
    assert (blocks if two_per_layer else len(spec.layers)) == recorded["layers"]
    if "layer_types" in recorded and not two_per_layer:
        named: Counter[str] = Counter()
        for kind, count in recorded["layer_types"].items():
            named[{"mlp": "nothing", "moe": "nothing"}.get(kind, SAME.get(kind, kind))] += count
        kept = Counter(word(spec.kinds[layer]) for layer in spec.layers)
        shared = kept.pop(
            "shared", 0
        )  # the class names what a sharing layer reads, not that it does
        assert all(named[kind] >= count for kind, count in kept.items())
        assert sum(named.values()) == sum(kept.values()) + shared
    heads = [s for states in spec.kinds.values() for s in states if isinstance(s, HeadState)]
    if heads and "kv_heads" in recorded:
        assert recorded["kv_heads"] in {state.kv_heads for state in heads}
    if heads and "head_dim" in recorded:
        assert recorded["head_dim"] in {state.head_dim for state in heads}
    windows = {state.window for state in heads if isinstance(state, SlidingAttention)}
    assert not windows or "window" not in recorded or windows == {recorded["window"]}
