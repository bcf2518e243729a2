"""Small configs that the tests of the config importer share."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "rms_norm_eps": 1e-05,
}


def llama(**changes: Any) -> dict[str, Any]:
    """The config of Llama 3 8B with changes; `...` takes a key out."""
    config = {**LLAMA, **changes}
    return {key: value for key, value in config.items() if value is not ...}


def unknown(**changes: Any) -> dict[str, Any]:
    """The same for a model type that nobody knows."""
    return llama(model_type="zephyrine", architectures=["ZephyrineForCausalLM"], **changes)
