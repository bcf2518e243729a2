"""Families with recurrent states, alone or beside attention."""

from __future__ import annotations

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    Rwkv,
    ShortConvolution,
)
from kvplan.spec.states import FullAttention, LatentAttention
from tests.importers.config_cases import llama

FULL = (FullAttention(kv_heads=8, head_dim=128),)


def test_qwen3_next() -> None:
    """One full layer in four; the state's format is left to engines unless the file names it."""
    config = llama(
        model_type="qwen3_next", num_hidden_layers=8, full_attention_interval=4, head_dim=128,
        linear_conv_kernel_dim=4, linear_num_key_heads=16, linear_key_head_dim=128,
        linear_num_value_heads=32, linear_value_head_dim=128,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("delta", "delta", "delta", "full") * 2
    (state,) = spec.kinds["delta"]
    assert state == GatedDeltaNet(
        conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128
    )
    assert (state.conv_channels, state.matrix_shape) == (8192, (32, 128, 128))
    assert spec.draft_layers == ("full",)
    named = import_config({**config, "model_type": "qwen3_5_text", "mamba_ssm_dtype": "float32"})
    assert named.spec.kinds["delta"][0].dtype == "float32"
    assert named.spec.draft_layers == ()


def test_kimi_linear_counts_from_one() -> None:
    """full_attn_layers 4 and 5 of 5 are the layers 3 and 4."""
    config = llama(
        model_type="kimi_linear", num_hidden_layers=5, kv_lora_rank=512, qk_rope_head_dim=64,
        qk_nope_head_dim=128, v_head_dim=128, q_lora_rank=None, mla_use_nope=True,
        linear_attn_config={"full_attn_layers": [4, 5], "kda_layers": [1, 2, 3], "num_heads": 32,
                            "head_dim": 128, "short_conv_kernel_size": 4},
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("delta", "delta", "delta", "latent", "latent")
    assert spec.kinds["delta"] == (KimiDeltaAttention(conv_kernel=4, num_heads=32, head_dim=128),)
    assert isinstance(spec.kinds["latent"][0], LatentAttention)
    broken = {**config["linear_attn_config"], "kda_layers": [1, 2]}
    with pytest.raises(ImportRefused, match="do not cover the 5 layers once each"):
        import_config({**config, "linear_attn_config": broken})


def test_minimax_01() -> None:
    """attn_type_list: 1 is softmax, 0 lightning attention with one matrix per query head."""
    config = llama(
        model_type="minimax_m1", num_hidden_layers=4, num_attention_heads=64, head_dim=128,
        attn_type_list=[0, 0, 0, 1],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("lightning",) * 3 + ("full",)
    assert spec.kinds["lightning"] == (LightningAttention(num_heads=64, head_dim=128),)


def test_minimax_m2_is_all_softmax() -> None:
    """MiniMax M2's list is all 1; three draft modules."""
    config = llama(
        model_type="minimax_m2", num_hidden_layers=4, head_dim=128, attn_type_list=[1] * 4,
        num_mtp_modules=3,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds == {"attention": FULL}
    assert spec.draft_layers == ("attention",) * 3


def test_nemotron_h_letters() -> None:
    """M is Mamba 2, * attention, - and E keep nothing; another number of layers is refused."""
    config = llama(
        model_type="nemotron_h", num_hidden_layers=6, hybrid_override_pattern="MEM*E-",
        head_dim=128, mamba_num_heads=64, mamba_head_dim=64, ssm_state_size=128, n_groups=8,
        conv_kernel=4, mamba_ssm_cache_dtype="float32", expand=2, chunk_size=128,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("mamba", "mlp", "mamba", "full", "mlp", "mlp")
    (state,) = spec.kinds["mamba"]
    assert state == Mamba2(
        conv_kernel=4, num_heads=64, head_dim=64, state_size=128, n_groups=8, dtype="float32"
    )
    assert isinstance(state, Mamba2)
    assert state.conv_channels == 6144
    with pytest.raises(ImportRefused, match="contradicts the pattern, which has 6 layers"):
        import_config({**config, "num_hidden_layers": 7})
    with pytest.raises(ImportRefused, match="holds 'X'"):
        import_config({**config, "hybrid_override_pattern": "MEM*EX"})


def test_nemotron_3_ultra_without_a_count() -> None:
    """Only layers_block_type says how many layers there are; its draft head attends once."""
    config = llama(
        model_type="nemotron_h", num_hidden_layers=..., head_dim=128, mamba_num_heads=256,
        mamba_head_dim=64, ssm_state_size=128, n_groups=8, conv_kernel=4,
        layers_block_type=["mamba", "moe", "attention"], num_nextn_predict_layers=1,
        mtp_layers_block_type=["attention", "moe"],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("mamba", "mlp", "full")
    assert spec.draft_layers == ("full",)


def test_jamba() -> None:
    """Attention at offset 4 of every 8 layers; Mamba of 2 x 4096 channels elsewhere."""
    config = llama(
        model_type="jamba", attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16,
        mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256, expert_layer_period=2,
    )  # fmt: skip
    spec = import_config(config).spec
    assert [i for i, name in enumerate(spec.layers) if name == "full"] == [4, 12, 20, 28]
    assert spec.kinds["mamba"] == (Mamba1(conv_kernel=4, intermediate_size=8192, state_size=16),)
    with pytest.raises(ImportRefused, match="lies not within 8"):
        import_config({**config, "attn_layer_offset": 8})


def test_falcon_h1_both_in_every_layer() -> None:
    """Falcon H1: attention and Mamba 2 side by side; mamba_d_ssm is the width."""
    config = llama(
        model_type="falcon_h1", num_hidden_layers=44, head_dim=128, mamba_d_ssm=3072,
        mamba_n_heads=24, mamba_d_head=128, mamba_n_groups=2, mamba_d_state=256, mamba_d_conv=4,
        mamba_expand=2, mamba_chunk_size=256,
    )  # fmt: skip
    spec = import_config(config).spec
    state = Mamba2(conv_kernel=4, num_heads=24, head_dim=128, state_size=256, n_groups=2)
    assert spec.kinds == {"attention": (*FULL, state)}
    assert state.conv_channels == 4096  # 3072 + 2 x 2 x 256
    with pytest.raises(ImportRefused, match="is not 3072 channels"):
        import_config({**config, "mamba_n_heads": 25})


def test_granite_4_and_bamba() -> None:
    """The list of layer types, or Bamba's indices."""
    mamba = {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
                 "mamba_d_conv": 4, "mamba_expand": 2}  # fmt: skip
    granite = llama(model_type="granitemoehybrid", num_hidden_layers=3,
                    layer_types=["mamba", "attention", "mamba"], **mamba)  # fmt: skip
    assert import_config(granite).spec.layers == ("mamba", "full", "mamba")
    bamba = llama(model_type="bamba", num_hidden_layers=3, attn_layer_indices=[1], **mamba)
    assert import_config(bamba).spec.layers == ("mamba", "full", "mamba")
    with pytest.raises(ImportRefused, match="beyond the last"):
        import_config({**bamba, "attn_layer_indices": [3]})


def test_zamba2_attention_over_twice_the_width() -> None:
    """Mamba 2 everywhere; hybrid layers keep K and V of 2 x 2560 / 32 = 160 as well."""
    config = llama(
        model_type="zamba2", hidden_size=2560, num_hidden_layers=3, num_key_value_heads=32,
        layers_block_type=["mamba", "mamba", "hybrid"], mamba_d_state=64, mamba_d_conv=4,
        mamba_expand=2, mamba_ngroups=1, n_mamba_heads=80, mamba_headdim=64,
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("mamba", "mamba", "hybrid")
    state = Mamba2(conv_kernel=4, num_heads=80, head_dim=64, state_size=64, n_groups=1)
    assert spec.kinds["hybrid"] == (FullAttention(kv_heads=32, head_dim=160), state)


def test_mamba_alone() -> None:
    """Falcon Mamba has no attention and no heads."""
    config = {
        "model_type": "falcon_mamba",
        "num_hidden_layers": 64,
        "hidden_size": 4096,
        "state_size": 16,
        "conv_kernel": 4,
        "expand": 2,
        "intermediate_size": 8192,
    }
    spec = import_config(config).spec
    assert spec.heads is None
    assert spec.kinds == {
        "attention": (Mamba1(conv_kernel=4, intermediate_size=8192, state_size=16),)
    }


def test_lfm2() -> None:
    """Short convolutions of conv_L_cache columns, attention elsewhere."""
    config = llama(
        model_type="lfm2", num_hidden_layers=3, hidden_size=2048, conv_L_cache=3, conv_dim=2048,
        layer_types=["conv", "conv", "full_attention"],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds["conv"] == (ShortConvolution(conv_kernel=3, channels=2048),)
    assert spec.kinds["full"] == (FullAttention(kv_heads=8, head_dim=64),)


def test_rwkv5() -> None:
    """RWKV 5: a matrix per head of 64, no attention; context_length bounds the training only."""
    config = {"model_type": "rwkv5", "num_hidden_layers": 32, "hidden_size": 2560,
              "attention_hidden_size": 2560, "head_size": 64, "vocab_size": 65536,
              "context_length": 4096, "rescale_every": 6, "model_version": "5_2"}  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds == {"attention": (Rwkv(hidden_size=2560, head_dim=64),)}
