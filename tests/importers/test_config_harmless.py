"""Keys declared harmless, types that keep no cache, adapters, and the key that a fact is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.load import load_model
from kvplan.spec.recurrent import KimiDeltaAttention
from kvplan.spec.states import FullAttention
from tests.importers.config_cases import llama


def odd(**keys: Any) -> dict[str, Any]:
    """A config of a type that nobody knows."""
    return {**llama(), "model_type": "oddity", **keys}


def test_all_keys_of_an_unknown_type_are_named_at_once() -> None:
    """One message holds every key, and the way to declare them harmless."""
    with pytest.raises(ImportRefused) as error:
        import_config(odd(memory_tokens=64, ring={"ring_span": 8, "ring_hop": 2}))
    assert "keys memory_tokens, ring" in error.value.message
    assert "--ignore-key memory_tokens --ignore-key ring" in (error.value.hint or "")


def test_obeying_the_hint_makes_the_model(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A declared key is recorded in the spec, which reads back as the same model."""
    file, spec = tmp_path / "config.json", tmp_path / "spec.yaml"
    file.write_text(json.dumps(odd(memory_tokens=64)))
    assert main(["import", str(file)]) == 2
    assert "--ignore-key memory_tokens" in capsys.readouterr().err
    args = ["import", str(file), "--ignore-key", "memory_tokens", "-o", str(spec)]
    assert main(args) == 0
    found = load_model(str(spec)).spec
    assert found.notes == "declared to have no say in the cache: memory_tokens"
    assert found.layers == import_config(llama()).spec.layers


def test_another_key_is_still_refused() -> None:
    """Only what is declared is let through, by its name or its dotted path."""
    with pytest.raises(ImportRefused, match="key 'ring_span'"):
        import_config(odd(memory_tokens=64, ring_span=8), ignored=["memory_tokens"])
    import_config(odd(outer={"ring_span": 8}), ignored=["outer.ring_span", "outer"])


@pytest.mark.parametrize("key", ["description", "version", "library_name"])
def test_what_only_describes_a_model_is_harmless(key: str) -> None:
    """Also for a type that nobody knows."""
    assert import_config(odd(**{key: "x"})).spec.layers


@pytest.mark.parametrize("model_type", ["convnext", "detr", "clip_vision_model", "encodec"])
def test_a_type_without_a_cache_says_so(model_type: str) -> None:
    """Not that some key is not understood."""
    with pytest.raises(ImportRefused, match="keeps no cache of past tokens"):
        import_config({"model_type": model_type, "hidden_size": 64, "num_channels": 3})


def test_an_adapter_names_its_base_model(tmp_path: Path) -> None:
    """A folder with an adapter alone is no model; the base is."""
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    with pytest.raises(ImportRefused, match=r"adapter \(LORA\) of org/base") as error:
        load_model(str(tmp_path))
    assert error.value.hint == "name the base model: org/base"


def test_linear_layers_of_bailing_hybrid_have_keys_of_their_own() -> None:
    """As transformers 5 saves it, head_dim 64 is the rotary key's; the matrices are 128 x 128."""
    config = {
        "model_type": "bailing_hybrid",
        "num_hidden_layers": 6,
        "layer_group_size": 6,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 64,
        "linear_num_heads": 16,
        "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "short_conv_kernel_size": 4,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 4096,
        "dtype": "bfloat16",
    }
    (state,) = import_config(config).spec.kinds["delta"]
    assert isinstance(state, KimiDeltaAttention)
    assert (state.num_heads, state.head_dim) == (16, 128)
    del config["linear_num_heads"], config["linear_head_dim"], config["linear_conv_kernel_dim"]
    (state,) = import_config({**config, "head_dim": 128}).spec.kinds["delta"]
    assert isinstance(state, KimiDeltaAttention)
    assert (state.num_heads, state.head_dim) == (32, 128)


def test_gemma_4_saved_again_has_its_own_heads_on_full_layers() -> None:
    """attention_k_eq_v beside per_layer_config adds nothing; each width names its own key."""
    text = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 2,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 32,
        "attention_k_eq_v": True,
        "num_kv_shared_layers": 0,
        "per_layer_config": {"1": {"head_dim": 128, "num_key_value_heads": 2}},
        "max_position_embeddings": 4096,
        "dtype": "bfloat16",
    }
    found = import_config(text)
    (state,) = found.spec.kinds["full"]
    assert isinstance(state, FullAttention)
    assert (state.kv_heads, state.head_dim) == (2, 128)
    said = found.comments()
    assert "per_layer_config.1.head_dim" in said["kinds.full"]
    assert "per_layer_config" not in said["kinds.sliding"]
