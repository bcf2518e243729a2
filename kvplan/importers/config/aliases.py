"""Foreign names of a fact, each list in the order in which they are looked up.

All the names of one fact that a file gives must agree, whatever the order; a file with
`n_layer: 60` and `num_hidden_layers: 48` is refused. A dot goes into a nested object.
"""

from __future__ import annotations

ALIASES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "kv_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "num_query_groups",
        "num_attention_groups",
        "attn_config.kv_n_heads",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "window": ("sliding_window", "sliding_window_size"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
}

# Keys that bound the context; the smallest that stands there counts (vLLM 0.33.0,
# transformers_utils/model_arch_config_convertor.py).
CONTEXT_KEYS: tuple[str, ...] = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)

# Where the text model of a multimodal config stands, outermost first.
TEXT_KEYS: tuple[str, ...] = (
    "text_config",
    "llm_config",
    "language_config",
    "decoder_config",
    "thinker_config",
    "language_model_config",
    "llm_model_config",
)

# Number of extra layers for multi-token prediction; the first that stands there counts, because
# MiniMax-M3 gives both a number of layers (1) and of prediction steps (num_mtp_modules 7).
DRAFT_KEYS: tuple[str, ...] = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_layers",
    "_num_mtp_layers",
    "mtp_num_layers",
    "num_mtp_modules",
)

DTYPE_KEYS: tuple[str, ...] = ("dtype", "torch_dtype")
