"""Fail closed: unknown keys that speak of the cache, for unknown and for known model types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config, import_config_text
from tests.importers.config_cases import llama, unknown


def test_unknown_type_without_hints() -> None:
    """Nothing hints at another layout: the plain one is imported, and named as an assumption."""
    found = import_config(unknown(attention_bias=False, rope_theta=10000.0, hidden_act="silu"))
    assert len(found.spec.layers) == 32
    assert [warning.id for warning in found.warnings] == ["assumed-plain-attention"]
    assert "zephyrine" in found.warnings[0].message


def test_without_model_type() -> None:
    """The same for a file that names no type at all."""
    found = import_config(llama(model_type=...))
    assert [warning.id for warning in found.warnings] == ["assumed-plain-attention"]


INVENTED: list[tuple[str, Any]] = [
    ("attention_window_schedule", [512, 1024]),
    ("kv_fold_factor", 4),
    ("latent_slots", 64),
    ("ssm_state_dim", 128),
    ("layer_pattern", "AABA"),
    ("index_key_size", 64),
    ("compress_every", 8),
    ("num_shared_cache_layers", 12),
    ("attention_period", 6),
    ("recurrent_blocks", [0, 2, 4]),
    ("memoryTokens", 256),
    ("conv_taps", 4),
    ("retention_heads", 8),
    ("token_budget_per_head", 512),
    ("cross_layer_reuse", True),
    ("kv_cache_bits_per_layer", [4, 8]),
    ("global_layers", [0, 8, 16]),
    ("summary_bank_size", 128),
    ("sparse_topk", 32),
    ("chunked_prefix_len", 2048),
    ("layer_types", ["linear_attention"] * 32),
    ("linear_attn_config", {"heads": 4}),
    ("sliding_window", 4096),
    ("key_width", 64),
    ("attn_kinds", ["a", "b"]),
    ("tokens_per_vector", 2),
]


@pytest.mark.parametrize(("key", "value"), INVENTED)
def test_one_invented_key(key: str, value: Any) -> None:
    """An architecture that does not exist, with one cache-shaping key: refused, the key named."""
    with pytest.raises(ImportRefused) as refused:
        import_config(unknown(**{key: value}))
    assert key in refused.value.message
    if key != "layer_types":
        assert repr(value)[:20] in refused.value.message
        assert "kind: full, kv_heads: 8, head_dim: 128" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        case
        for case in INVENTED
        if case[0]
        not in (
            "sliding_window",
            "key_width",
            "attn_kinds",
            "tokens_per_vector",
            "token_budget_per_head",
        )
    ],
)
def test_known_types_refuse_too(key: str, value: Any) -> None:
    """A Llama with an unknown cache-shaping key is no Llama that we know."""
    with pytest.raises(ImportRefused, match=key):
        import_config(llama(**{key: value}))


def test_nested_key_has_its_place() -> None:
    """A hint inside an unknown object is found, with its path and place."""
    config = unknown(mixer={"kernel": {"state_size": 16}})
    with pytest.raises(ImportRefused) as refused:
        import_config_text(json.dumps(config, indent=1), "config.json")
    assert "'mixer.kernel.state_size' (16)" in refused.value.message
    assert refused.value.where == "config.json:16:4"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sliding_window", None),
        ("use_sliding_window", False),
        ("num_shared_cache_layers", 0),
        ("layer_pattern", []),
        ("moe_layer_freq", 2),
        ("shared_expert_intermediate_size", 512),
        ("n_shared_experts", 1),
        ("first_k_dense_replace", 3),
        ("initializer_range", 0.02),
        ("rope_local_base_freq", 10000.0),
        ("vision_config", {"window_size": 7, "num_global_layers": 8}),
        ("layer_types", ["full_attention"] * 32),
        ("sliding_window", 8192),
    ],
)
def test_harmless(key: str, value: Any) -> None:
    """What is switched off, or speaks of experts, rotary angles or pictures, hints at nothing."""
    found = import_config(unknown(**{key: value}))
    assert len(found.spec.layers) == 32


def test_unknown_wrapper() -> None:
    """A key beside the text config of an unknown wrapper counts as well."""
    config = {"model_type": "zephyrine_vl", "text_config": llama(), "kv_compress_ratio": 4}
    with pytest.raises(ImportRefused, match="kv_compress_ratio"):
        import_config(config)
    del config["kv_compress_ratio"]
    assert len(import_config(config).spec.layers) == 32
