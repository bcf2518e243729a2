"""The plain layout and the facts every model has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config, import_config_text
from kvplan.spec.model import Rope
from kvplan.spec.states import FullAttention, SlidingAttention
from tests.importers.config_cases import llama

FULL = (FullAttention(kv_heads=8, head_dim=128),)


def test_llama_3_8b() -> None:
    """The published facts of Llama 3 8B: 32 layers of 8 KV heads x 128."""
    spec = import_config(llama(), name="llama3-8b").spec
    assert spec.name == "llama3-8b"
    assert spec.layers == ("attention",) * 32
    assert spec.kinds == {"attention": (FullAttention(kv_heads=8, head_dim=128),)}
    assert (spec.heads, spec.hidden_size, spec.vocab_size) == (32, 4096, 128256)
    assert (spec.max_context, spec.dtype, spec.kv_dtype) == (8192, "bfloat16", None)
    assert (spec.model_type, spec.architecture) == ("llama", "LlamaForCausalLM")
    assert spec.draft_layers == ()


def test_origins() -> None:
    """Every fact says where it came from: a place, a derivation, or the class."""
    text = json.dumps(llama(), indent=2)
    found = import_config_text(text, "config.json")
    origins = {fact.field: fact.origin for fact in found.facts}
    assert origins["kv_heads"] == "config.json:9:3 num_key_value_heads"
    assert origins["head_dim"] == "derived: hidden_size 4096 / 32 heads"
    assert origins["max_context"] == "config.json:10:3 max_position_embeddings"
    assert origins["attention"].startswith("kv_heads: config.json:9:3 num_key_value_heads")
    assert found.warnings == ()


def test_explicit_head_dim_wins() -> None:
    """Mistral Nemo: 5120 / 32 would be 160, the file says 128."""
    spec = import_config(llama(hidden_size=5120, head_dim=128)).spec
    assert spec.kinds["attention"] == (FullAttention(kv_heads=8, head_dim=128),)


def test_missing_kv_heads_of_llama_are_one_per_head() -> None:
    """Llama 1 files have no such key, and their class says one per query head."""
    found = import_config(llama(num_key_value_heads=...))
    assert found.spec.kinds["attention"] == (FullAttention(kv_heads=32, head_dim=128),)
    assert any(
        "one per query head (transformers 5.24.0 LlamaConfig)" in f.origin for f in found.facts
    )


def test_class_fixes_head_dim() -> None:
    """Qwen3 without head_dim has 128, not hidden_size / heads (1024 / 16 = 64)."""
    config = llama(model_type="qwen3", hidden_size=1024, num_attention_heads=16)
    found = import_config(config)
    assert found.spec.kinds["attention"] == (FullAttention(kv_heads=8, head_dim=128),)
    origin = next(fact.origin for fact in found.facts if fact.field == "head_dim")
    assert origin == "class default (transformers 5.24.0 Qwen3Config: head_dim)"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"num_hidden_layers": ...}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": None}, "num_hidden_layers is null"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"num_hidden_layers": 32.0}, "must be a whole number"),
        ({"num_hidden_layers": "32"}, "must be a whole number"),
        ({"num_hidden_layers": True}, "must be a whole number"),
        ({"num_hidden_layers": 10**9}, "more than any model"),
        ({"num_attention_heads": ...}, "num_attention_heads is missing"),
        ({"num_key_value_heads": None}, "num_key_value_heads is null"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"num_key_value_heads": 7}, "7 KV heads do not divide 32 attention heads"),
        ({"model_type": "mistral", "num_key_value_heads": ...}, "num_key_value_heads is missing"),
        ({"hidden_size": ...}, "hidden_size is missing"),
        ({"hidden_size": 4100}, "no multiple of 32 attention heads"),
        ({"n_layer": 30}, "contradict each other: num_hidden_layers 32, n_layer 30"),
        ({"num_kv_heads": 4}, "contradict each other"),
        ({"layer_types": ["full_attention"] * 31}, "31 entries for 32 layers"),
        ({"layer_types": ["full_attention"] * 31 + ["spiral"]}, "spiral"),
        ({"layer_types": "full_attention"}, "must be a list of texts"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window is missing"),
        ({"sliding_window": 0}, "sliding_window is 0"),
        ({"sliding_window": -1}, "sliding_window is -1"),
        ({"max_position_embeddings": "8k"}, "must be a whole number"),
        ({"torch_dtype": "float11"}, "not a known format"),
        ({"use_sliding_window": "no"}, "must be true or false"),
    ],
)
def test_null_zero_missing_contradictory(changes: dict[str, Any], what: str) -> None:
    """Facts that are null, zero, missing, of the wrong type or contradictory are errors."""
    with pytest.raises(ImportRefused, match=what):
        import_config(llama(**changes))


def test_error_has_place_and_hint() -> None:
    """The message names the place, the key and what to write."""
    text = '{\n "model_type": "llama",\n "num_hidden_layers": null}'
    with pytest.raises(ImportRefused) as refused:
        import_config_text(text, "config.json")
    assert refused.value.where == "config.json:3:2"
    assert refused.value.hint is not None
    assert '"num_hidden_layers"' in refused.value.hint


def test_window_on_all_layers() -> None:
    """Mistral 7B v0.1: every layer keeps 4096 tokens."""
    spec = import_config(llama(model_type="mistral", sliding_window=4096)).spec
    assert spec.kinds["attention"] == (SlidingAttention(kv_heads=8, head_dim=128, window=4096),)


def test_window_of_the_class() -> None:
    """A Mistral file without the key has the class's window; with null it has none."""
    assert import_config(llama(model_type="mistral")).spec.kinds["attention"] == (
        SlidingAttention(kv_heads=8, head_dim=128, window=4096),
    )
    without = import_config(llama(model_type="mistral", sliding_window=None)).spec
    assert without.kinds["attention"] == (FullAttention(kv_heads=8, head_dim=128),)


def test_window_switched_off() -> None:
    """Qwen2 files hold a window and use_sliding_window: false."""
    config = llama(
        model_type="qwen2", sliding_window=4096, use_sliding_window=False, max_window_layers=28
    )
    assert import_config(config).spec.kinds["attention"] == (
        FullAttention(kv_heads=8, head_dim=128),
    )


def test_window_from_max_window_layers_on() -> None:
    """With the switch on, the first max_window_layers keep everything."""
    config = llama(
        model_type="qwen2", sliding_window=4096, use_sliding_window=True, max_window_layers=28
    )
    assert import_config(config).spec.layers == ("full",) * 28 + ("sliding",) * 4


def test_aliases() -> None:
    """GPT-2's names for the same facts; no KV heads: one per head."""
    config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}
    spec = import_config(config).spec
    assert len(spec.layers) == 12
    assert spec.kinds["attention"] == (FullAttention(kv_heads=12, head_dim=64),)
    assert spec.max_context == 1024


def test_text_config_inside() -> None:
    """A wrapper: its towers keep nothing, the class fills what the text config leaves out."""
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "torch_dtype": "float16",
        "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
        "vision_config": {"num_hidden_layers": 24, "window_size": 7},
    }
    spec = import_config(config).spec
    assert len(spec.layers) == 32  # LlamaConfig's own number, which a nested config leaves out
    assert spec.kinds["attention"] == (FullAttention(kv_heads=32, head_dim=128),)
    assert (spec.model_type, spec.architecture) == ("llama", "LlavaForConditionalGeneration")
    assert (spec.dtype, spec.max_context) == ("float16", 4096)


def test_two_levels_down() -> None:
    """Qwen Omni: thinker_config.text_config."""
    config = {
        "model_type": "qwen2_5_omni",
        "thinker_config": {"text_config": llama(model_type="qwen2_5_omni_text")},
    }
    assert import_config(config).spec.model_type == "qwen2_5_omni_text"


def test_smallest_context_key() -> None:
    """Qwen 1: seq_length bounds what max_position_embeddings promises."""
    assert import_config(llama(seq_length=2048)).spec.max_context == 2048
    cohere = llama(model_type="cohere", model_max_length=131072)
    assert import_config(cohere).spec.max_context == 131072


def test_rope() -> None:
    """Rope scaling in both spellings; longrope keeps the long context and names the original."""
    assert import_config(llama(rope_scaling={"type": "linear", "factor": 2})).spec.rope == Rope(
        type="linear", factor=2.0
    )
    config = llama(
        rope_scaling={"type": "longrope", "long_factor": [1.0]},
        max_position_embeddings=131072,
        original_max_position_embeddings=4096,
    )
    spec = import_config(config).spec
    assert spec.max_context == 131072
    assert spec.rope == Rope(type="longrope", original_max_context=4096)
    assert import_config(llama(rope_parameters={"rope_type": "default"})).spec.rope is None


def test_params_json(tmp_path) -> None:
    """Mistral's params.json, found in its folder; the folder gives the name."""
    folder = tmp_path / "Mistral-7B-v0.1"
    folder.mkdir()
    params = {
        "dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
        "n_kv_heads": 8, "norm_eps": 1e-05, "sliding_window": 4096, "vocab_size": 32000,
    }  # fmt: skip
    (folder / "params.json").write_text(json.dumps(params))
    spec = import_config(folder).spec
    assert spec.name == "mistral-7b-v0.1"
    assert spec.kinds["attention"] == (SlidingAttention(kv_heads=8, head_dim=128, window=4096),)
    del params["sliding_window"]
    assert import_config(params).spec.kinds["attention"] == (
        FullAttention(kv_heads=8, head_dim=128),
    )


def test_folder_without_config(tmp_path) -> None:
    """A folder that holds neither file is refused."""
    with pytest.raises(ImportRefused, match=r"neither config\.json nor params\.json"):
        import_config(tmp_path)


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ("x", "rope_scaling is 'x', it must be an object"),
        ({"type": "linear", "factor": "4"}, "rope_scaling.factor is '4', it must be a number"),
        ({"type": "linear", "factor": True}, "rope_scaling.factor is True"),
        ({"type": 4, "factor": 4}, "the type is 4, it must be a text"),
    ],
)
def test_rope_of_the_wrong_type(scaling: Any, message: str) -> None:
    """A scaling of the wrong type is an error: without it the default length would be another."""
    with pytest.raises(ImportRefused, match=message):
        import_config(llama(rope_scaling=scaling))
