"""Mistral's `params.json`: the same facts under its own names (vLLM 0.33.0, configs/mistral.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.documents.document import Document, Renamed

# Mistral's name -> the name the families read.
NAMES = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "max_seq_len": "max_position_embeddings",
    "max_position_embeddings": "max_position_embeddings",
    "sliding_window": "sliding_window",
    "vocab_size": "vocab_size",
    "kv_lora_rank": "kv_lora_rank",
    "q_lora_rank": "q_lora_rank",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "qk_nope_head_dim": "qk_nope_head_dim",
    "v_head_dim": "v_head_dim",
    "torch_dtype": "torch_dtype",
    "dtype": "torch_dtype",
}


def is_params(data: Mapping[str, Any]) -> bool:
    """True for a params.json: Mistral's names, and no model_type."""
    return "dim" in data and "n_layers" in data and "n_heads" in data and "model_type" not in data


def from_params(source: Document) -> Document:
    """The same file under the names of a config.json; places stay those of the file."""
    data: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in source.data.items():
        name = NAMES.get(key, key)
        data.setdefault(name, value)
        keys.setdefault(name, key)
    data.setdefault(
        "sliding_window", None
    )  # absent: no window (the class default is config.json's)
    data["model_type"] = "deepseek_v3" if data.get("kv_lora_rank") is not None else "mistral"
    return Document(data=data, name=source.name, places=Renamed(source.places, keys))
