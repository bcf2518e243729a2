"""Families that mix whole-context, windowed, chunked and shared layers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.states import ChunkedAttention, FullAttention, SharedCache, SlidingAttention
from tests.importers.config_cases import llama

FULL = (FullAttention(kv_heads=8, head_dim=128),)


def gemma3_27b(**changes: Any) -> dict[str, Any]:
    """Gemma 3 27B as published: no pattern, no context, no vocabulary in its text config."""
    text = {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
        "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, **changes,
    }  # fmt: skip
    return {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": text}


def test_gemma_3_pattern_of_the_class() -> None:
    """Five windows to one full layer, although the file has no pattern key: 10 full of 62."""
    found = import_config(gemma3_27b())
    spec = found.spec
    assert [index for index, name in enumerate(spec.layers) if name == "full"] == [
        5, 11, 17, 23, 29, 35, 41, 47, 53, 59,
    ]  # fmt: skip
    assert spec.kinds["sliding"] == (SlidingAttention(kv_heads=16, head_dim=128, window=1024),)
    assert (spec.max_context, spec.vocab_size) == (131072, 262208)
    origin = next(fact.origin for fact in found.facts if fact.field == "period")
    assert origin == "class default (transformers 5.24.0 Gemma3TextConfig: sliding_window_pattern)"


def test_gemma_3_saved_again() -> None:
    """The same model with layer_types written out has the same layers."""
    types = ["full_attention" if index % 6 == 5 else "sliding_attention" for index in range(62)]
    again = import_config(gemma3_27b(layer_types=types)).spec
    assert again.layers == import_config(gemma3_27b()).spec.layers


def test_gemma_3_4b_counts_of_the_class() -> None:
    """Gemma 3 4B leaves its heads to the class: 8, 4 and 256."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
            "sliding_window": 1024}  # fmt: skip
    spec = import_config({"model_type": "gemma3", "text_config": text}).spec
    assert (spec.heads, spec.kinds["full"]) == (8, (FullAttention(kv_heads=4, head_dim=256),))


def test_embedding_gemma_keeps_nothing() -> None:
    """Attention in both directions: an encoder."""
    spec = import_config(llama(model_type="gemma3_text", use_bidirectional_attention=True)).spec
    assert set(spec.layers) == {"encoder"}
    assert spec.kinds == {"encoder": ()}


def test_gemma_2_alternates_from_a_window() -> None:
    """Gemma 2: layer 0 has a window, layer 1 none."""
    spec = import_config(llama(model_type="gemma2", sliding_window=4096, head_dim=128)).spec
    assert spec.layers == ("sliding", "full") * 16


@given(period=st.integers(1, 12), layers=st.integers(1, 100))
def test_pattern_number(period: int, layers: int) -> None:
    """sliding_window_pattern n: exactly the layers n-1, 2n-1, ... are full."""
    config = llama(
        model_type="cohere2", num_hidden_layers=layers, sliding_window=64,
        sliding_window_pattern=period,
    )  # fmt: skip
    spec = import_config(config).spec
    full = {index for index in range(layers) if spec.kinds[spec.layers[index]] == FULL}
    assert full == set(range(period - 1, layers, period))


def test_exaone_letters() -> None:
    """EXAONE 4: LLLG, three local and one global layer."""
    config = llama(model_type="exaone4", sliding_window=4096, sliding_window_pattern="LLLG")
    assert import_config(config).spec.layers == ("sliding", "sliding", "sliding", "full") * 8


def test_exaone_without_window() -> None:
    """EXAONE 4 1.2B has no window: every layer is full."""
    config = llama(model_type="exaone4", sliding_window=None, sliding_window_pattern=None)
    assert import_config(config).spec.kinds == {"attention": FULL}


def test_llama_4() -> None:
    """Llama 4: chunks of 8192, full on every fourth layer, both from the class."""
    spec = import_config(llama(model_type="llama4_text", num_hidden_layers=8)).spec
    assert spec.layers == ("chunked", "chunked", "chunked", "full") * 2
    assert spec.kinds["chunked"] == (ChunkedAttention(kv_heads=8, head_dim=128, chunk=8192),)


def test_llama_4_no_rope_layers() -> None:
    """no_rope_layers: 0 marks a layer without rotary keys, which is a full one."""
    config = llama(model_type="llama4_text", num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0])
    assert import_config(config).spec.layers == ("chunked", "full", "chunked", "full")
    with pytest.raises(ImportRefused, match="no_rope_layers has 3 entries for 4 layers"):
        import_config({**config, "no_rope_layers": [1, 0, 1]})


def test_gemma_4_heads_by_kind() -> None:
    """Gemma 4 26B: full layers have 2 KV heads of 512 (K and V one), windows 8 of 256."""
    config = llama(
        model_type="gemma4_text", num_hidden_layers=12, num_attention_heads=16, head_dim=256,
        global_head_dim=512, num_global_key_value_heads=2, attention_k_eq_v=True,
        sliding_window=1024, num_kv_shared_layers=0,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds["full"] == (FullAttention(kv_heads=2, head_dim=512),)
    assert spec.kinds["sliding"] == (SlidingAttention(kv_heads=8, head_dim=256, window=1024),)
    separate = import_config({**config, "attention_k_eq_v": False}).spec
    assert separate.kinds["full"] == (FullAttention(kv_heads=8, head_dim=512),)


def test_gemma_3n_shares_the_tail() -> None:
    """Gemma 3n E4B: the last 15 of 35 layers read the last own layer of their kind."""
    config = llama(
        model_type="gemma3n_text", num_hidden_layers=35, num_attention_heads=8,
        num_key_value_heads=2, head_dim=256, sliding_window=512, num_kv_shared_layers=15,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers[:20] == ("sliding", "sliding", "sliding", "sliding", "full") * 4
    assert set(spec.layers[20:]) == {"shared_sliding", "shared_full"}
    assert spec.kinds["shared_full"] == (SharedCache(reads="full"),)
    assert spec.shared_sources()[34] == 19  # full layers: 4, 9, 14, 19 | 24, 29, 34
    assert spec.shared_sources()[20] == 18
    with pytest.raises(ImportRefused, match="leaves none of 35 layers"):
        import_config({**config, "num_kv_shared_layers": 35})


def test_laguna_query_heads_by_layer() -> None:
    """Laguna: 48 query heads on full layers, 72 on windowed ones, 8 KV heads on all."""
    config = llama(
        model_type="laguna", num_hidden_layers=4, num_attention_heads=48, head_dim=128,
        sliding_window=512, num_attention_heads_per_layer=[48, 72, 72, 72],
        layer_types=["full_attention"] + ["sliding_attention"] * 3,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds["full"] == FULL
    assert spec.kinds["sliding"] == (
        SlidingAttention(kv_heads=8, head_dim=128, heads=72, window=512),
    )


def test_mimo_v2() -> None:
    """MiMo V2 Flash: 4 KV heads of 192/128 on full layers, 8 on windowed ones."""
    config = llama(
        model_type="mimo_v2_flash", num_hidden_layers=6, num_attention_heads=64,
        num_key_value_heads=4, head_dim=192, v_head_dim=128, swa_num_attention_heads=64,
        swa_num_key_value_heads=8, swa_head_dim=192, swa_v_head_dim=128, sliding_window=128,
        sliding_window_size=128, attention_chunk_size=128, hybrid_layer_pattern=[0, 1, 1, 1, 1, 0],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("full", "sliding", "sliding", "sliding", "sliding", "full")
    assert spec.kinds["full"] == (FullAttention(kv_heads=4, head_dim=192, v_head_dim=128),)
    assert spec.kinds["sliding"] == (
        SlidingAttention(kv_heads=8, head_dim=192, v_head_dim=128, window=128),
    )


def test_step_3_draft_layers_in_the_list() -> None:
    """Step 3.5: layer_types runs on over the draft layers."""
    config = llama(
        model_type="step3p5", num_hidden_layers=4, sliding_window=512, num_nextn_predict_layers=2,
        layer_types=["full_attention", *["sliding_attention"] * 5],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("full", "sliding", "sliding", "sliding")
    assert spec.draft_layers == ("sliding", "sliding")


def test_gpt_neo() -> None:
    """GPT-Neo: [[kinds], times]."""
    config = {
        "model_type": "gpt_neo", "num_layers": 4, "num_heads": 16, "hidden_size": 2048,
        "window_size": 256, "attention_types": [[["global", "local"], 2]],
    }  # fmt: skip
    assert import_config(config).spec.layers == ("full", "sliding") * 2


@pytest.mark.parametrize("types", [None, ...])
def test_step_without_layer_types(types: Any) -> None:
    """A Step 3.7 with a window whose layers nobody lists is refused, not windowed throughout."""
    config = llama(model_type="step3p7", sliding_window=512, layer_types=types)
    with pytest.raises(ImportRefused, match="layer_types is missing"):
        import_config(config)
    assert len(import_config({**config, "sliding_window": None}).spec.layers) == 32


def test_gpt_neo_types_are_a_list() -> None:
    """attention_types that are no list do not become the class's alternation."""
    config = llama(model_type="gpt_neo", num_layers=32, window_size=256, attention_types="global")
    with pytest.raises(ImportRefused, match="attention_types is 'global'"):
        import_config(config)
