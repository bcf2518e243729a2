"""What vLLM would not start with: codes, figures, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kvplan.engines.layout import CacheLayout
from kvplan.spec.states import CrossAttention, FullAttention, SharedCache
from tests.engines.vllm.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V32,
    GIB,
    LLAMA,
    NEMOTRON_NANO,
    QWEN3_NEXT,
    fit,
    model,
    size,
)


def code_of(layout: CacheLayout) -> str | None:
    """The code of a refusal, None of a plan."""
    return layout.refusal.code if layout.refusal else None


def figures_of(layout: CacheLayout) -> Mapping[str, Any]:
    """The figures of a refusal, none of a plan."""
    return layout.refusal.figures if layout.refusal else {}


def test_too_little_memory_names_need_and_longest_length() -> None:
    """Llama 3.1 8B, 131,072 tokens in 2 GiB: 16 GiB needed, 1,023 usable blocks of 16 tokens."""
    layout = fit(LLAMA, 2 * GIB, 131072)
    assert code_of(layout) == "kv-too-small"
    assert figures_of(layout) == {
        "needed_bytes": 16 * GIB,
        "available_bytes": 2 * GIB - 2 * 2**20,
        "longest": 1023 * 16,
    }
    assert layout.refusal is not None
    assert layout.refusal.message == (
        "a request of 131,072 tokens needs 16.00 GiB (17,179,869,184 bytes) of cache on a rank and "
        "2.00 GiB (2,145,386,496 bytes) are there; lower --max-model-len to 16368 or raise "
        "--gpu-memory-utilization"
    )
    assert layout.figures["max_model_len_that_fits"] == 1023 * 16
    assert layout.num_blocks is None


def test_no_memory_at_all() -> None:
    """Not even the null block."""
    layout = fit(LLAMA, 2 * 1024**2, 4096)
    assert code_of(layout) == "no-memory"
    assert figures_of(layout)["available_bytes"] == 0


def test_the_automatic_length_is_cut_to_the_memory() -> None:
    """--max-model-len -1 in 2 GiB: 16,368 tokens."""
    figures = fit(LLAMA, 2 * GIB, max_model_len=-1).figures
    assert figures["max_model_len"] == 16368
    assert figures["num_blocks"] == 1024
    assert figures["fits"] is True


def test_overriding_the_blocks_replaces_the_memory() -> None:
    """--num-gpu-blocks-override 100000: that many, however few bytes there are."""
    figures = fit(LLAMA, 1, 8192, num_gpu_blocks_override=100000).figures
    assert figures["num_blocks"] == 100000
    assert figures["capacity_tokens"] == int(100000 / 512 * 8192) == 1_600_000


def test_cache_memory_given_in_bytes_replaces_the_available_bytes() -> None:
    """--kv-cache-memory-bytes."""
    figures = fit(LLAMA, 40 * GIB, 4096, kv_cache_memory_bytes=4 * GIB).figures
    assert figures["num_blocks"] == 2048


@pytest.mark.parametrize(
    ("layout", "code", "figures"),
    [
        (size(LLAMA, 4096, tp=3), "heads-not-divisible", {"heads": 32, "tp": 3}),
        (
            size(LLAMA, 131073),
            "length-above-model",
            {"max_model_len": 131073, "longest": 131072},
        ),
        (
            size(LLAMA, 4096, tp=8, dcp=2),
            "dcp-not-possible",
            {"tp": 8, "dcp": 2, "kv_heads": 8},
        ),
        (
            size(LLAMA, 4096, tp=32, dcp=8),
            "dcp-not-possible",
            {"tp": 32, "dcp": 8, "kv_heads": 8, "largest_dcp": 4},
        ),
        (
            size(LLAMA, 4096, kv_cache_dtype="float16"),
            "format-not-for-model",
            {"kv_cache_dtype": "float16", "dtype": "bfloat16"},
        ),
        (size(LLAMA, 4096, block_size=8), "no-backend", {"head_size": 128, "block_size": 8}),
        (
            size(DEEPSEEK_V3, 4096, kv_cache_dtype="nvfp4"),
            "format-not-for-model",
            {"kv_cache_dtype": "nvfp4"},
        ),
        (
            size(DEEPSEEK_V3, 4096, kv_cache_dtype="fp8", gpu="a100"),
            "format-not-on-device",
            {"backend": "TRITON_MLA", "capability": "8.0", "device": "NVIDIA A100-SXM4-80GB"},
        ),
        (
            size(NEMOTRON_NANO, 4096, tp=16),
            "state-groups-not-divisible",
            {"groups": 8, "tp": 16},
        ),
        (
            size(QWEN3_NEXT, 4096, disable_hybrid_kv_cache_manager="true"),
            "mixed-local-layers",
            {},
        ),
        (size(LLAMA, 4096, VLLM_KV_CACHE_LAYOUT="XYZ"), "layout-unknown", {}),
        (
            size(LLAMA, 4096, pp=2, VLLM_PP_LAYER_PARTITION="20,11"),
            "partition-not-valid",
            {"partition_layers": 31, "layers": 32},
        ),
    ],
)
def test_refusals_before_any_memory_is_counted(
    layout: CacheLayout, code: str, figures: dict[str, object]
) -> None:
    """The code, the numbers behind it, and no plan beside it."""
    assert code_of(layout) == code
    assert figures.items() <= figures_of(layout).items()
    assert layout.figures["fits"] is False
    assert layout.figures["num_blocks"] is None


def test_the_reason_of_each_backend_is_a_code() -> None:
    """An int8 cache of sparse latents on Hopper: what each backend lacks, and what would do."""
    refusal = size(DEEPSEEK_V32, 4096, kv_cache_dtype="int8_per_token_head").refusal
    assert refusal is not None
    assert refusal.code == "no-backend"
    assert refusal.figures["backends"]["FLASHMLA"] == ["kv-cache-dtype", "sparse"]
    assert refusal.figures["backends"]["FLASHMLA_SPARSE"] == ["kv-cache-dtype"]
    assert "FLASHMLA_SPARSE would with another --kv-cache-dtype" in refusal.message


def test_a_bare_assertion_is_explained() -> None:
    """Phi-4 has 10 KV heads: vLLM fails without a word, kvplan says why."""
    spec = model(("full",) * 40, {"full": (FullAttention(kv_heads=10, head_dim=128),)}, heads=40)
    layout = size(spec, 4096, tp=4)
    assert layout.refusal is not None
    assert (layout.refusal.code, layout.refusal.exception) == (
        "heads-not-divisible",
        "AssertionError",
    )
    assert layout.refusal.message == "10 KV heads do not divide among 4 tensor parallel ranks"


def test_an_architecture_that_was_dropped() -> None:
    """It is refused by 0.33 and planned by a version that had it."""
    spec = model(
        ("full",) * 32,
        {"full": (FullAttention(kv_heads=32, head_dim=128),)},
        heads=32,
        architecture="BaichuanForCausalLM",
    )
    layout = size(spec, 4096)
    assert code_of(layout) == "architecture-removed"
    assert figures_of(layout)["last_version"] == "0.24.0"
    assert size(spec, 4096, version="0.19.0").refusal is None


def test_a_class_without_stages() -> None:
    """Zamba2 cannot be split into pipeline stages."""
    kinds = {"full": (FullAttention(kv_heads=8, head_dim=64),)}
    spec = model(("full",) * 4, kinds, heads=64, architecture="Zamba2ForCausalLM")
    assert code_of(size(spec, 4096, pp=2)) == "pipeline-unsupported"


def test_a_shared_layer_on_another_stage() -> None:
    """Layers 4 to 7 read layer 3; with two stages of four they would have to read across."""
    spec = model(
        ("full",) * 4 + ("reads",) * 4,
        {
            "full": (FullAttention(kv_heads=8, head_dim=64),),
            "reads": (SharedCache(reads="full"),),
        },
        heads=64,
    )
    assert size(spec, 4096).refusal is None
    layout = size(spec, 4096, pp=2)
    assert code_of(layout) == "kv-sharing-target"
    assert figures_of(layout) == {"layer": 4, "source": 3, "pp": 2}


def test_a_stage_without_any_cache() -> None:
    """The second stage has layers that keep nothing: vLLM divides by its zero bytes per block."""
    spec = model(
        ("full",) * 4 + ("mlp",) * 4,
        {"full": (FullAttention(kv_heads=8, head_dim=64),), "mlp": ()},
        heads=64,
    )
    layout = size(spec, 4096, pp=2)
    assert layout.refusal is not None
    assert layout.refusal.exception == "ZeroDivisionError"
    assert (code_of(layout), figures_of(layout)) == ("stage-without-cache", {"stage": 1})


def test_classes_that_nobody_has() -> None:
    """An encoder-decoder that is not for speech, and a state without kernels."""
    kinds = {
        "decoder": (FullAttention(kv_heads=8, head_dim=64), CrossAttention(kv_heads=8, head_dim=64))
    }
    spec = model(("decoder",) * 4, kinds, heads=8, architecture="T5ForConditionalGeneration")
    assert code_of(size(spec, 512)) == "unsupported-architecture"
    spec = model(("decoder",) * 4, kinds, heads=8, architecture="WhisperForConditionalGeneration")
    assert size(spec, 512).refusal is None


def test_a_step_holds_a_token_of_every_sequence() -> None:
    """config/scheduler.py verify_max_model_len; the default of sequences follows the tokens."""
    layout = size(LLAMA, 4096, max_num_batched_tokens=7, max_num_seqs=1024)
    assert code_of(layout) == "batched-tokens-below-max-num-seqs"
    assert figures_of(layout) == {"max_num_batched_tokens": 7, "max_num_seqs": 1024}
    assert size(LLAMA, 4096, max_num_batched_tokens=7).refusal is None
    assert size(LLAMA, 4096, max_num_batched_tokens=64, max_num_seqs=64).refusal is None


def test_a_prompt_that_is_not_cut_is_one_step() -> None:
    """config/scheduler.py verify_max_model_len: without chunked prefill."""
    options = {"enable_chunked_prefill": False}
    layout = size(LLAMA, 4096, max_num_batched_tokens=2048, **options)
    assert code_of(layout) == "batched-tokens-below-max-model-len"
    assert figures_of(layout) == {"max_num_batched_tokens": 2048, "max_model_len": 4096}
    assert size(LLAMA, 4096, max_num_batched_tokens=4096, **options).refusal is None


def test_blocks_of_states_need_cached_prefixes() -> None:
    """config/vllm.py validate_mamba_block_size."""
    layout = size(QWEN3_NEXT, 4096, mamba_block_size=512, enable_prefix_caching=False)
    assert code_of(layout) == "mamba-block-size-without-prefix-caching"
    assert size(QWEN3_NEXT, 4096, mamba_block_size=512, enable_prefix_caching=True).refusal is None
