"""A model type that nobody knows: the next idea has a name that no list of words holds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.importers.config.wrappers import text_path
from kvplan.importers.gguf import import_gguf
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import SlidingAttention
from tests.evidence import CONFIGS, TRUTH
from tests.importers.config_cases import llama, unknown
from tests.importers.gguf_writer import write_gguf

# Ten architectures that do not exist, each plain but for one key that shapes its cache.
INVENTED: list[tuple[str, str, Any]] = [
    ("retentive_llama", "kv_retention_span", 512),
    ("memorizer", "memory_tokens", 64),
    ("landmarker", "landmark_stride", 64),
    ("condenser", "cache_compression_rate", 4),
    ("ringworm", "ring_span", 1024),
    ("summarist", "summary_every", 64),
    ("expandable", "state_expansion", 2),
    ("crosslayer", "cross_layer_reuse", 2),
    ("evictor", "evict_after", 4096),
    ("localist", "local_attention_radius", 128),
]

# Names without any word of windows, states or caches, and some that hide behind harmless words.
UNHEARD: list[tuple[str, Any]] = [
    ("fovea", 1024),
    ("halo", 64),
    ("receptive_field", 256),
    ("yoco_split", 16),
    ("depth_fraction", 0.5),
    ("pyramid", [1024, 512, 256]),
    ("ttt_mini_batch", 16),
    ("wavelet_depth", 4),
    ("zigzag", True),
    ("heavy_hitters", 256),
    ("temporal_radius", 64),
    ("mixers", ["attn", "fft"]),
    ("backbone_plan", "3x(2A+1R)"),
    ("twin", True),
    ("streaming", True),
    ("num_tied_layers", 4),
    ("multiplier_tokens", 2),
    ("init_tokens_kept", 4),
    ("expert_cache_rate", 4),
    ("router_state", 8),
    ("moe_kv_sharing", 2),
    ("rope_free_window", 2048),
    ("image_memory", 64),
    ("activation_memory", 64),
    ("token_dropout_window", 128),
    ("neural_store", {"width": 128}),
]


# Words of the cache in a key that also speaks of norms, pictures, experts or rotary angles.
_DISGUISED = """
    loop_steps unroll_steps refine_steps universal_transformer_steps token_downsampling
    downsampling_rate subsampling_stride latent_rope_dim decoupled_rope_dim mla_rope_dim
    intermediate_latent_dim image_cross_attention_layers vision_cross_layers visual_cross_layers
    image_cross_every audio_cross_attention_layers qkv_lora_rank qkv_lowrank qkv_rank
    normalized_linear_attention norm_linear_attn residual_linear_layers residual_local_layers
    attention_experts moh_experts moe_attention routed_heads attention_routing gating_delta_rank
    init_sparse_layers block_diffusion_length diffusion_block_size scale_every_n_layers
    attention_mlp_ratio
"""
DISGUISED: list[tuple[str, Any]] = [
    *((key, 6) for key in _DISGUISED.split()),
    ("attention_activation", "linear"),
    ("attn_mode", "lightning"),
    ("pruned_heads", {"1": [2]}),
]
# The same, where only a type that is not known makes them suspicious.
STRANGE: list[tuple[str, Any]] = [
    ("depth_steps", 6),
    ("qkv_layout", "grouped"),
    ("gating_type", "delta"),
    ("kernel_activation", "elu"),
    ("attn_impl", "nsa"),
    ("context_window_size", 4096),
    ("downsample_factor", 2),
    ("num_decoder_layers", 6),
    ("use_mtp", True),
    ("mtp_transformer_layers", 1),
]
# What a Llama does not have. In a family that is read a harmless word excuses a key: new members of
# known families bring such keys (`add_swa_attention_sink_bias`, `activation_situ_linear_beta`).
_EXCUSED = """
    latent_rope_dim decoupled_rope_dim mla_rope_dim intermediate_latent_dim init_sparse_layers
    normalized_linear_attention norm_linear_attn residual_linear_layers residual_local_layers
    attention_experts moh_experts moe_attention routed_heads attention_routing
    scale_every_n_layers attention_mlp_ratio attention_activation
"""
FOREIGN: list[tuple[str, Any]] = [
    *((key, value) for key, value in DISGUISED if key not in _EXCUSED.split()),
    *((key, 6) for key in (
        "token_mixer", "yoco_split", "layer_repetition", "k_eq_v", "attn_topk", "moba_topk",
        "rnn_layers", "encoder_layers", "attention_free_layers", "switch_head", "full_layers",
    )),
    ("attn_impl", "nsa"),
    ("_attn_implementation", "lightning"),
    ("is_encoder_decoder", True),
    ("add_cross_attention", True),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [*DISGUISED, *STRANGE])
def test_disguised_names(key: str, value: Any) -> None:
    """A word of the cache outweighs the harmless words beside it."""
    with pytest.raises(ImportRefused, match=rf"key '{key}"):
        import_config(unknown(**{key: value}))


@pytest.mark.parametrize(("key", "value"), FOREIGN)
def test_foreign_to_a_known_type(key: str, value: Any) -> None:
    """A Llama with such a key is not the Llama that is known."""
    with pytest.raises(ImportRefused, match=rf"key '{key}"):
        import_config(llama(**{key: value}))


@pytest.mark.parametrize("key", ["add_swa_attention_sink_bias", "activation_situ_linear_beta"])
def test_keys_that_new_members_of_known_families_bring(key: str) -> None:
    """Biases and activations of attention keep nothing, whatever words stand beside them."""
    assert import_config(llama(**{key: 25.0})).spec == import_config(llama()).spec


@pytest.mark.parametrize("name", ["eager", "sdpa", "flash_attention_2"])
def test_kernels(name: str) -> None:
    """The usual ways to compute attention keep the same cache."""
    assert import_config(unknown(attn_implementation=name, _attn_implementation=name))


@pytest.mark.parametrize(("model_type", "key", "value"), INVENTED, ids=lambda value: str(value))
def test_invented_architectures(model_type: str, key: str, value: Any) -> None:
    """Each is refused, with the key, its value, and a spec's lines to write."""
    config = {**unknown(**{key: value}), "model_type": model_type}
    with pytest.raises(ImportRefused) as refused:
        import_config(config)
    assert f"key {key!r} ({value!r})" in refused.value.message
    assert model_type in refused.value.message
    assert "kinds: {full: {kind: full, kv_heads: 8, head_dim: 128}" in (refused.value.hint or "")


@pytest.mark.parametrize(("key", "value"), UNHEARD)
def test_unheard_names(key: str, value: Any) -> None:
    """What is neither understood nor known to be harmless is refused, whatever its name."""
    with pytest.raises(ImportRefused, match=rf"key '{key}"):
        import_config(unknown(**{key: value}))


def test_switched_off() -> None:
    """An unheard name whose value switches nothing on refuses nothing."""
    off = dict(zip((key for key, _ in UNHEARD), (None, False, 0, [], {}, "") * 9, strict=False))
    found = import_config(unknown(**off))
    assert [warning.id for warning in found.warnings] == ["assumed-plain-attention"]


@pytest.mark.parametrize(("key", "value"), [*((k, v) for _, k, v in INVENTED), *UNHEARD[:-1]])
def test_unknown_wrapper(key: str, value: Any) -> None:
    """The same beside the text config of a wrapper that nobody knows."""
    config = {"model_type": "zephyrine_vl", "text_config": llama(), "image_token_index": 5}
    assert len(import_config({**config, "max_tiles": 10, "patch_size": 14}).spec.layers) == 32
    with pytest.raises(ImportRefused, match=rf"key '{key}'"):
        import_config({**config, key: value})


def test_settings_of_every_config() -> None:
    """Generation defaults, training, experts, rotary angles and names are no reason to refuse."""
    harmless = {
        "temperature": 0.7, "top_k": 50, "num_beams": 4, "return_dict": True, "do_sample": True,
        "initializer_range": 0.02, "hidden_dropout": 0.1, "router_aux_loss_coef": 0.001,
        "num_experts": 64, "num_experts_per_tok": 8, "n_shared_experts": 2, "n_group": 8,
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_intermediate_size": 1024,
        "rope_theta": 1e6, "partial_rotary_factor": 0.5, "hidden_act": "silu", "mlp_bias": True,
        "embedding_multiplier": 12.0, "tie_word_embeddings": True, "eos_token_id": 2,
        "vision_config": {"window_size": 7, "fovea": 3}, "_name_or_path": "a/b",
        "transformers_version": "5.0", "auto_map": {"AutoConfig": "configuration_x.XConfig"},
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }  # fmt: skip
    assert len(import_config(unknown(**harmless)).spec.layers) == 32


GGUF = {
    "general.architecture": "zephyrine",
    "zephyrine.block_count": 4,
    "zephyrine.context_length": 2048,
    "zephyrine.embedding_length": 512,
    "zephyrine.feed_forward_length": 2048,
    "zephyrine.expert_count": 8,
    "zephyrine.expert_used_count": 2,
    "zephyrine.expert_shared_count": 1,
    "zephyrine.rope.freq_base": 10000.0,
    "zephyrine.attention.head_count": 8,
    "zephyrine.attention.head_count_kv": 2,
    "zephyrine.attention.layer_norm_rms_epsilon": 1e-5,
}


@pytest.mark.parametrize(("key", "value"), [*((k, v) for _, k, v in INVENTED), *UNHEARD[:-1]])
def test_unknown_gguf_architecture(key: str, value: Any, tmp_path: Path) -> None:
    """A GGUF file of an architecture that nobody knows: the same, key and value named."""
    found = import_gguf(write_gguf(tmp_path / "plain.gguf", GGUF))
    assert [warning.id for warning in found.warnings] == ["assumed-plain-attention"]
    path = write_gguf(tmp_path / "x.gguf", {**GGUF, f"zephyrine.{key}": value})
    with pytest.raises(ImportRefused, match=rf"zephyrine\.{key} is"):
        import_gguf(path)


_UNHEARD_GGUF = """
    token_mixer mixer.type titan.dim ttt.batch hyena.order retention.heads repeat_count attn_mode
    moe.window expert_cache rope_window pooling_window swiglu_state_size experts_kv_heads
    classifier_cache norm_before_cache budget landmark lookback segment_length selection.count
    v_dim qk_dim query_dim tpa_rank svd_rank depth n_streams moe.lookback expert_latent
    rope_latent_dim image_cross_layers vision.cross_every
"""


@pytest.mark.parametrize("key", [*_UNHEARD_GGUF.split(), *(key for key, _ in DISGUISED)])
def test_disguised_gguf_keys(key: str, tmp_path: Path) -> None:
    """In a GGUF file of an unknown architecture too, no harmless word hides one of the cache."""
    path = write_gguf(tmp_path / "x.gguf", {**GGUF, f"zephyrine.{key}": 4})
    with pytest.raises(ImportRefused, match=rf"zephyrine\.{key} is"):
        import_gguf(path)


@pytest.mark.parametrize(
    "key", ["moe.window", "expert_cache", "token_mixer", "yoco_split", "budget"]
)
def test_foreign_to_a_known_gguf_architecture(key: str, tmp_path: Path) -> None:
    """A Llama with such a key is not the Llama that is known."""
    plain = {name.replace("zephyrine", "llama"): value for name, value in GGUF.items()}
    plain["general.architecture"] = "llama"
    assert import_gguf(write_gguf(tmp_path / "plain.gguf", plain)).warnings == ()
    path = write_gguf(tmp_path / "x.gguf", {**plain, f"llama.{key}": 4})
    with pytest.raises(ImportRefused, match=rf"llama\.{key} is"):
        import_gguf(path)


def real_configs() -> list[dict[str, Any]]:
    """Every real config at hand."""
    found = [json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))]
    more = json.loads((TRUTH / "vllm_configs.json").read_text())
    return found + [entry["config"] for entry in more.values()]


@pytest.mark.evidence
def test_real_configs_under_another_type() -> None:
    """A real model under a type nobody knows is refused, or imported as what it is.

    Plain models mostly keep their layout: a rule that refused everything would pass the first half.
    """
    imported = refused = 0
    for config in real_configs():
        try:
            true = import_config(config).spec
        except ImportRefused:
            continue
        renamed = copy.deepcopy(config)
        inner = renamed
        for key in text_path(renamed):
            inner = inner[key]
        inner["model_type"] = "zephyrine"
        try:
            guess = import_config(renamed).spec
        except ImportRefused:
            refused += _plain(true)
            continue
        assert guess.layers == true.layers
        assert guess.kinds == true.kinds or _window_never_closes(true), config
        imported += 1
    assert imported > 180
    assert refused < 40


def _plain(spec: ModelSpec) -> bool:
    return {state.kind for states in spec.kinds.values() for state in states} == {"full"}


def _window_never_closes(spec: ModelSpec) -> bool:
    states = [state for states in spec.kinds.values() for state in states]
    limit = spec.max_context or 0
    return all(isinstance(s, SlidingAttention) and s.window >= limit for s in states)
