"""What vLLM would not start with, in its own words."""

from __future__ import annotations

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


def test_too_little_memory_names_need_and_longest_length() -> None:
    """Llama 3.1 8B, 131,072 tokens in 2 GiB: 16 GiB needed, 1,023 usable blocks of 16 tokens."""
    layout = fit(LLAMA, 2 * GIB, 131072)
    assert layout.refusal == (
        "To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache "
        "is needed, which is larger than the available KV cache memory (2.0 GiB). Based on the "
        "available memory, the estimated maximum model length is 16368. Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        "decreasing `max_model_len` when initializing the engine. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    )
    assert layout.figures["max_model_len_that_fits"] == 1023 * 16
    assert layout.ranks == ()


def test_no_memory_at_all() -> None:
    """Not even the null block."""
    layout = fit(LLAMA, 2 * 1024**2, 4096)
    assert layout.refusal is not None
    assert layout.refusal.startswith("No available memory for the cache blocks. Try increasing")


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
    ("layout", "text"),
    [
        (
            size(LLAMA, 4096, tp=3),
            "Total number of attention heads (32) must be divisible by tensor parallel size (3).",
        ),
        (
            size(LLAMA, 131073),
            "User-specified max_model_len (131073) is greater than the derived max_model_len",
        ),
        (
            size(LLAMA, 4096, tp=8, dcp=2),
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (8)",
        ),
        (size(LLAMA, 4096, tp=32, dcp=8), "exceeds the maximum supported value (4)"),
        (
            size(LLAMA, 4096, kv_cache_dtype="float16"),
            'kv_cache_dtype="float16" is incompatible with dtype="bfloat16"',
        ),
        (
            size(LLAMA, 4096, block_size=8),
            "block_size=8, use_mla=False",
        ),
        (
            size(DEEPSEEK_V3, 4096, kv_cache_dtype="nvfp4"),
            "nvfp4 KV cache is not supported with MLA",
        ),
        (
            size(DEEPSEEK_V32, 4096, kv_cache_dtype="int8_per_token_head"),
            "FLASHMLA: [kv_cache_dtype not supported, sparse not supported]",
        ),
        (
            size(DEEPSEEK_V3, 4096, kv_cache_dtype="fp8", gpu="a100"),
            "FP8 KV cache is not supported by the Triton MLA backend on NVIDIA A100-SXM4-80GB",
        ),
        (
            size(NEMOTRON_NANO, 4096, tp=16),
            "If tensor parallel world size does not divide num_groups",
        ),
        (
            size(QWEN3_NEXT, 4096, disable_hybrid_kv_cache_manager="true"),
            "Failed to promote local KV cache specs to one unified type.",
        ),
        (
            size(LLAMA, 4096, VLLM_KV_CACHE_LAYOUT="XYZ"),
            "Unknown KV cache layout 'XYZ'",
        ),
        (
            size(LLAMA, 4096, pp=2, VLLM_PP_LAYER_PARTITION="20,11"),
            "sum(partitions)=31 does not match num_hidden_layers=32.",
        ),
    ],
)
def test_refusals_before_any_memory_is_counted(layout: CacheLayout, text: str) -> None:
    """The message, and no figures beside it."""
    assert layout.refusal is not None
    assert text in layout.refusal
    assert layout.figures["fits"] is False
    assert layout.figures["num_blocks"] is None


def test_a_bare_assertion_is_explained() -> None:
    """Phi-4 has 10 KV heads: vLLM fails without a word, kvplan says why."""
    spec = model(("full",) * 40, {"full": (FullAttention(kv_heads=10, head_dim=128),)}, heads=40)
    layout = size(spec, 4096, tp=4)
    assert layout.refusal == "AssertionError:"
    assert layout.reasons == ("10 KV heads are not divisible by tensor parallel size 4",)


def test_an_architecture_that_was_dropped() -> None:
    """It is refused by 0.33 and planned by a version that had it."""
    spec = model(
        ("full",) * 32,
        {"full": (FullAttention(kv_heads=32, head_dim=128),)},
        heads=32,
        architecture="BaichuanForCausalLM",
    )
    refusal = size(spec, 4096).refusal
    assert refusal is not None
    assert "was supported in vLLM until v0.23.0" in refusal
    assert size(spec, 4096, version="0.19.0").refusal is None


def test_a_class_without_stages() -> None:
    """Zamba2 cannot be split into pipeline stages."""
    kinds = {"full": (FullAttention(kv_heads=8, head_dim=64),)}
    spec = model(("full",) * 4, kinds, heads=64, architecture="Zamba2ForCausalLM")
    assert size(spec, 4096, pp=2).refusal == (
        "Pipeline parallelism is not supported for this model. "
        "Supported models implement the `SupportsPP` interface."
    )


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
    assert size(spec, 4096, pp=2).refusal == (
        "Specified KV sharing target layer for model.layers.4.self_attn.attn is not valid: target "
        "layer model.layers.3.self_attn.attn is not a valid Attention layer in the model."
    )


def test_a_stage_without_any_cache() -> None:
    """The second stage has layers that keep nothing: vLLM divides by its zero bytes per block."""
    spec = model(
        ("full",) * 4 + ("mlp",) * 4,
        {"full": (FullAttention(kv_heads=8, head_dim=64),), "mlp": ()},
        heads=64,
    )
    layout = size(spec, 4096, pp=2)
    assert layout.refusal == "integer division or modulo by zero"
    assert "pipeline stage 1 has no layer with a cache" in layout.reasons[0]


def test_classes_that_nobody_has() -> None:
    """An encoder-decoder that is not for speech, and a state without kernels."""
    kinds = {
        "decoder": (FullAttention(kv_heads=8, head_dim=64), CrossAttention(kv_heads=8, head_dim=64))
    }
    spec = model(("decoder",) * 4, kinds, heads=8, architecture="T5ForConditionalGeneration")
    assert size(spec, 512).refusal == (
        "Model architectures ['T5ForConditionalGeneration'] are not supported for now."
    )
    spec = model(("decoder",) * 4, kinds, heads=8, architecture="WhisperForConditionalGeneration")
    assert size(spec, 512).refusal is None


def test_a_step_holds_a_token_of_every_sequence() -> None:
    """config/scheduler.py verify_max_model_len; the default of sequences follows the tokens."""
    layout = size(LLAMA, 4096, max_num_batched_tokens=7, max_num_seqs=1024)
    assert layout.refusal == (
        "max_num_batched_tokens (7) must be greater than or equal to max_num_seqs (1024)."
    )
    assert size(LLAMA, 4096, max_num_batched_tokens=7).refusal is None
    assert size(LLAMA, 4096, max_num_batched_tokens=64, max_num_seqs=64).refusal is None


def test_a_prompt_that_is_not_cut_is_one_step() -> None:
    """config/scheduler.py verify_max_model_len: without chunked prefill."""
    options = {"enable_chunked_prefill": False}
    refusal = size(LLAMA, 4096, max_num_batched_tokens=2048, **options).refusal
    assert refusal is not None
    assert refusal.startswith("max_num_batched_tokens (2048) is smaller than max_model_len (4096).")
    assert size(LLAMA, 4096, max_num_batched_tokens=4096, **options).refusal is None


def test_blocks_of_states_need_cached_prefixes() -> None:
    """config/vllm.py validate_mamba_block_size."""
    refusal = size(QWEN3_NEXT, 4096, mamba_block_size=512, enable_prefix_caching=False).refusal
    assert refusal == "--mamba-block-size can only be set with --enable-prefix-caching"
    assert size(QWEN3_NEXT, 4096, mamba_block_size=512, enable_prefix_caching=True).refusal is None
