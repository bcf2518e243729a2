"""Encoder-decoders, cross-attention layers, encoders."""

from __future__ import annotations

from kvplan.importers.config import import_config
from kvplan.spec.states import CrossAttention, FullAttention, SlidingAttention
from tests.importers.config_cases import llama


def test_whisper() -> None:
    """Whisper turbo: 4 decoder layers (num_hidden_layers is the encoder's), 1500 encoder tokens."""
    config = {"model_type": "whisper", "num_hidden_layers": 32, "encoder_layers": 32,
              "decoder_layers": 4, "d_model": 1280, "encoder_attention_heads": 20,
              "decoder_attention_heads": 20, "max_source_positions": 1500,
              "max_target_positions": 448, "torch_dtype": "float16",
              "is_encoder_decoder": True}  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("attention",) * 4
    assert spec.kinds["attention"] == (
        FullAttention(kv_heads=20, head_dim=64),
        CrossAttention(kv_heads=20, head_dim=64),
    )
    assert (spec.encoder_tokens, spec.max_context, spec.heads) == (1500, 448, 20)


def test_t5_head_size_is_its_own() -> None:
    """T5: d_kv 64 whatever d_model / heads; the decoder may have fewer layers."""
    config = {"model_type": "t5", "num_layers": 24, "num_decoder_layers": 12, "num_heads": 128,
              "d_model": 1024, "d_kv": 128, "is_encoder_decoder": True}  # fmt: skip
    spec = import_config(config).spec
    assert len(spec.layers) == 12
    assert spec.kinds["attention"][0] == FullAttention(kv_heads=128, head_dim=128)
    assert spec.encoder_tokens is None
    del config["num_decoder_layers"]
    assert len(import_config(config).spec.layers) == 24


def test_t5gemma_uses_the_decoder_half() -> None:
    """T5Gemma: the decoder's layers, each also attending to the encoder."""
    half = llama(model_type="t5_gemma_module", num_hidden_layers=4, sliding_window=4096)
    config = {"model_type": "t5gemma", "is_encoder_decoder": True, "encoder": half, "decoder": half}
    spec = import_config(config).spec
    assert spec.layers == ("sliding", "full") * 2
    cross = CrossAttention(kv_heads=8, head_dim=256)
    assert spec.kinds["full"] == (FullAttention(kv_heads=8, head_dim=256), cross)
    assert spec.kinds["sliding"] == (
        SlidingAttention(kv_heads=8, head_dim=256, window=4096),
        cross,
    )


def test_llama_3_2_vision() -> None:
    """Cross layers keep the image alone: 4 tiles x ((560 / 14)^2 + 1) = 6404 tokens."""
    text = llama(model_type="mllama_text_model", num_hidden_layers=5, cross_attention_layers=[3])
    config = {
        "model_type": "mllama",
        "text_config": text,
        "vision_config": {"image_size": 560, "patch_size": 14, "max_num_tiles": 4},
    }
    spec = import_config(config).spec
    assert spec.layers == ("full", "full", "full", "cross", "full")
    assert spec.kinds["cross"] == (CrossAttention(kv_heads=8, head_dim=128),)
    assert spec.encoder_tokens == 6404


def test_bert_keeps_nothing() -> None:
    """An encoder: 12 layers, nothing kept."""
    config = {"model_type": "bert", "num_hidden_layers": 12, "num_attention_heads": 12,
              "hidden_size": 768, "max_position_embeddings": 512}  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("encoder",) * 12
    assert spec.kinds == {"encoder": ()}


def test_embedding_model_on_a_decoder() -> None:
    """gte-Qwen2: the layers are a decoder's, and is_causal says that they read both ways."""
    found = import_config(llama(model_type="qwen2", is_causal=False, use_sliding_window=False))
    assert found.spec.text_attention == "bidirectional"
    assert found.spec.kinds == {"attention": (FullAttention(kv_heads=8, head_dim=128),)}
    assert import_config(llama(is_causal=True)).spec.text_attention is None
