"""Every row of `tests/data/facts/facts2.tsv`: the model that its id means has these sizes.

The rows come from readers other than kvplan: makers' tables, config files of copies, and llmfit
1.1.17, which read each id's own file; their `source` says which. A context in that table may be
multiplied by a rotary factor, so it is compared only where no such factor can be in it.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from kvplan.load import load_model
from kvplan.spec.states import FullAttention, HeadState, LatentAttention, SlidingAttention

TABLE = Path(__file__).parents[1] / "data" / "facts" / "facts2.tsv"
with TABLE.open(encoding="utf-8", newline="") as _file:
    ROWS = {row["hf_id"]: row for row in csv.DictReader(_file, delimiter="\t")}

# llmfit takes the query heads where it finds no count of KV heads under the usual key.
NO_KV_KEY = {"nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", "sarvamai/sarvam-105b"}
# The table's context is a rotary factor too long, or an older figure of the same model.
OTHER_CONTEXT = {
    "google/medgemma-4b-it": "llmfit multiplies by the rotary factor 8",
    "google/medgemma-27b-text-it": "llmfit multiplies by the rotary factor 8",
    "poolside/Laguna-S-2.1": "llmfit multiplies by the rotary factor; the -FP8 file says 262,144",
}


@pytest.mark.parametrize("hf_id", sorted(ROWS))
def test_model_has_the_sizes_that_were_read_elsewhere(hf_id: str) -> None:
    """Layers, width, query heads, KV heads, head width, windows, latent rank and context."""
    row = ROWS[hf_id]
    spec = load_model(hf_id).spec
    assert len(spec.layers) == int(row["num_hidden_layers"])
    if spec.hidden_size is not None:
        assert spec.hidden_size == int(row["hidden_size"])
    if spec.heads is not None:
        assert spec.heads == int(row["num_attention_heads"])
    states = [state for layer in spec.layers for state in spec.kinds[layer]]
    plain = [state for state in states if isinstance(state, HeadState)]
    if plain and hf_id not in NO_KV_KEY:
        assert int(row["num_key_value_heads"]) in {state.kv_heads for state in plain}
        assert int(row["head_dim"]) in {state.head_dim for state in plain}
    ranks = {state.kv_lora_rank for state in states if isinstance(state, LatentAttention)}
    if row["kv_lora_rank"]:
        assert ranks == {int(row["kv_lora_rank"])}
    windows = {state.window for state in states if isinstance(state, SlidingAttention)}
    if row["sliding_window"].isdigit() and "off" not in row["sliding_window_layers"]:
        assert windows == {int(row["sliding_window"])}
    many = re.match(r"(\d+) of (\d+)(?: \((\d+) own\))?", row["sliding_window_layers"])
    if many and windows:
        found = sum(isinstance(state, SlidingAttention) for state in states)
        assert found == int(many[3] or many[1])
    if row["max_position_embeddings"].isdigit() and hf_id not in OTHER_CONTEXT:
        assert spec.max_context == int(row["max_position_embeddings"])
    assert plain or ranks or not any(isinstance(state, FullAttention) for state in states)
