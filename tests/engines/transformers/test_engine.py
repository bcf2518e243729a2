"""Versions, options, formats and parallelism of the transformers engine."""

from __future__ import annotations

import pytest

from kvplan.engines.base import Engine
from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.engines.transformers.versions import settle
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import LightningAttention, Mamba2, Rwkv
from kvplan.spec.states import FullAttention, LatentAttention

ENGINE: Engine = TransformersEngine()
LLAMA = ModelSpec(
    name="llama",
    dtype="bfloat16",
    kv_dtype="fp8_e4m3",
    kinds={"full": (FullAttention(kv_heads=8, head_dim=128),)},
    layers=("full",) * 2,
)


@pytest.mark.parametrize(
    ("asked", "settled", "says"),
    [
        ("", "5.24.0", False),
        ("5.24.0", "5.24.0", False),
        ("4.57.6", "4.57.6", False),
        ("5.15.0", "5.15.0", True),
        ("6.1", "5.24.0", True),
        ("4.30.2", "4.57.6", True),
    ],
)
def test_a_version_outside_what_is_known_says_so(asked: str, settled: str, says: bool) -> None:
    """The nearest known rules answer, and the provenance tells."""
    rules = settle(asked)

    assert rules.version == settled
    assert bool(rules.provenance) == says


def test_no_version_is_an_error() -> None:
    """A word is not a version."""
    with pytest.raises(UsageError, match="is not a version"):
        settle("latest")


def test_tensors_carry_layer_name_shape_and_dtype() -> None:
    """One entry per layer and tensor, as the cache object holds them."""
    tensors = ENGINE.layout(LLAMA, Request(ctx=7, batch=3), "").ranks[0].tensors

    assert [tensor.name for tensor in tensors] == [
        "layers.0.keys",
        "layers.0.values",
        "layers.1.keys",
        "layers.1.values",
    ]
    assert {tensor.shape for tensor in tensors} == {(3, 8, 7, 128)}
    assert {(tensor.dtype, tensor.bytes) for tensor in tensors} == {
        ("bfloat16", 3 * 8 * 7 * 128 * 2)
    }


def test_a_declared_fp8_cache_is_ignored_and_said() -> None:
    """transformers caches in the format the model runs in."""
    layout = ENGINE.layout(LLAMA, Request(ctx=1), "")

    assert layout.bytes == 2 * 8 * 256 * 2
    assert any("declares a fp8_e4m3 cache" in reason for reason in layout.reasons)


def test_a_float32_model_costs_twice() -> None:
    """--dtype is the format the model is loaded in."""
    assert ENGINE.layout(LLAMA, Request(ctx=1, dtype="fp32"), "").bytes == 2 * 8 * 256 * 4


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(ctx=1, dtype="fp8"), "not in fp8_e4m3"),
        (Request(ctx=1, dtype_k="fp16", dtype_v="bf16"), "K and V in one format"),
        (Request(ctx=1, pp=2), "pp is not modelled"),
        (Request(ctx=1, tp=3), "8 key/value heads over 3 ranks"),
        (Request(ctx=1, options={"prefill": "2"}), "prefill 2 is longer"),
        (Request(ctx=1, options={"block_size": "2"}), "'block_size' is not a transformers option"),
        (Request(ctx=1, options={"nbits": "many"}), "nbits cannot be 'many'"),
        (Request(ctx=1, options={"cache_implementation": "offloaded"}), "not modelled"),
        (Request(ctx=1, options={"cache_implementation": "sink"}), "not one of transformers"),
    ],
)
def test_what_cannot_be_asked(request_: Request, words: str) -> None:
    """Each with the value that was given."""
    with pytest.raises(UsageError, match=words):
        ENGINE.layout(LLAMA, request_, "")


def test_a_missing_fact_is_named() -> None:
    """Decompressed MLA needs the heads and their widths; a format must come from somewhere."""
    latent = ModelSpec(
        name="latent",
        dtype="bfloat16",
        kinds={"mla": (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),)},
        layers=("mla",),
    )
    unnamed = ModelSpec(
        name="unnamed",
        kinds={"full": (FullAttention(kv_heads=8, head_dim=128),)},
        layers=("full",),
    )

    with pytest.raises(UsageError, match="how many query heads"):
        ENGINE.layout(latent, Request(ctx=1), "4.57.6")
    with pytest.raises(UsageError, match="which format it runs in"):
        ENGINE.layout(unnamed, Request(ctx=1), "")


def test_states_without_a_class_are_not_guessed() -> None:
    """Recurrent families that no class of this version holds."""
    kinds = {
        "rwkv": (Rwkv(hidden_size=128, head_dim=64),),
        "lightning": (LightningAttention(num_heads=4, head_dim=64),),
        "mamba2": (Mamba2(num_heads=4, head_dim=64, state_size=16, n_groups=1, conv_kernel=4),),
    }

    def asked(kind: str, version: str) -> None:
        spec = ModelSpec(name=kind, dtype="bfloat16", kinds=kinds, layers=(kind,))
        ENGINE.layout(spec, Request(ctx=1), version)

    with pytest.raises(UsageError, match="no class for RWKV"):
        asked("rwkv", "5.24.0")
    with pytest.raises(UsageError, match="lightning attention"):
        asked("lightning", "5.24.0")
    with pytest.raises(UsageError, match="no cache class"):
        asked("mamba2", "4.57.6")


def test_minimax_brings_its_own_cache() -> None:
    """Its matrices are in the model's format, and cache_implementation changes nothing."""
    spec = ModelSpec(
        name="minimax",
        dtype="bfloat16",
        model_type="minimax",
        kinds={"lightning": (LightningAttention(num_heads=64, head_dim=128),)},
        layers=("lightning",) * 3,
    )
    layout = ENGINE.layout(spec, Request(ctx=9, options={"cache_implementation": "static"}), "")

    assert layout.bytes == 3 * 64 * 128 * 128 * 2
    assert any("ignores cache_implementation" in reason for reason in layout.reasons)


def test_ranks_hold_their_heads_and_latents_whole() -> None:
    """Two ranks: half the heads each, but all of a latent."""
    latent = ModelSpec(
        name="latent",
        dtype="bfloat16",
        kinds={"mla": (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),)},
        layers=("mla",),
    )
    heads = ENGINE.layout(LLAMA, Request(ctx=10, tp=2), "")
    whole = ENGINE.layout(latent, Request(ctx=10, tp=2), "")

    assert [rank.bytes for rank in heads.ranks] == [10 * 2 * 4 * 256 * 2] * 2
    assert [rank.bytes for rank in whole.ranks] == [10 * 576 * 2] * 2


def test_arguments_are_options() -> None:
    """`--engine-args` takes the library's own names, with or without dashes in front."""
    asked = ENGINE.split_args("cache_implementation=quantized --nbits=2, q-group-size=128")

    assert asked == {"cache_implementation": "quantized", "nbits": "2", "q_group_size": "128"}
    with pytest.raises(UsageError, match="'nbits' gives no value"):
        ENGINE.split_args("nbits 2")
