"""The figures of vLLM that surprise, each with its arithmetic written out."""

from __future__ import annotations

import pytest

from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.spec.model import ModelSpec, Rope
from kvplan.spec.states import (
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)
from tests.engines.vllm.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V32,
    GEMMA_3_27B,
    GIB,
    LLAMA,
    NEMOTRON_NANO,
    QWEN3_NEXT,
    fit,
    model,
    size,
)


def test_mla_is_not_divided_by_tensor_parallelism() -> None:
    """Every rank stores the whole latent: 61 layers x 16 tokens x 576 x 2 bytes."""
    block = 61 * 16 * 576 * 2
    for tp in (1, 8, 16):
        layout = size(DEEPSEEK_V3, 32768, tp=tp)
        assert layout.figures["bytes_per_block"] == [block]
        assert layout.bytes == tp * (2048 + 1) * block


def test_kv_heads_are_copied_when_ranks_exceed_them() -> None:
    """8 KV heads: tp 8 leaves one on each rank, tp 16 and 32 still one."""
    one_head = 32 * 16 * 1 * (128 + 128) * 2
    for tp in (8, 16, 32):
        assert size(LLAMA, 4096, tp=tp).figures["bytes_per_block"] == [one_head]
    assert size(LLAMA, 4096, tp=4).figures["bytes_per_block"] == [2 * one_head]


def test_fp8_and_fp8_e4m3_differ_for_sparse_mla_on_hopper() -> None:
    """`fp8` gets packed rows of 656 bytes, `fp8_e4m3` plain ones of 576; the index costs 132."""
    packed = size(DEEPSEEK_V32, 32768, tp=8, kv_cache_dtype="fp8").figures
    plain = size(DEEPSEEK_V32, 32768, tp=8, kv_cache_dtype="fp8_e4m3").figures
    assert packed["bytes_per_block"] == [61 * 64 * (656 + 132)]
    assert plain["bytes_per_block"] == [61 * 64 * (576 + 132)]
    assert packed["kv_cache_dtype"] == "fp8_ds_mla"


def test_fp8_and_fp8_e4m3_agree_for_sparse_mla_on_blackwell() -> None:
    """On SM10x both are 576 bytes, and only fp8_ds_mla packs 656."""
    for name, row in (("fp8", 576), ("fp8_e4m3", 576), ("fp8_ds_mla", 656)):
        figures = size(DEEPSEEK_V32, 32768, tp=8, gpu="b200", kv_cache_dtype=name).figures
        assert figures["bytes_per_block"] == [61 * 64 * (row + 132)]


def test_a_hybrids_log_line_is_not_blocks_times_block_size() -> None:
    """Qwen3-Next, 40 GiB, 32,768 tokens.

    A state has 3 x 8,192 + 32 x 128 x 128 bfloat16 elements = 1,097,728 bytes. An attention token
    costs 2 x 256 x 2 x 2 = 2,048 bytes, blocks are multiples of 64: 576 tokens, 1,179,648 bytes.
    Blocks of 12 pages: 3,034. A request takes 3 groups x 3 states + ceil(32,768 / 576) = 57.
    """
    figures = fit(QWEN3_NEXT, 40 * GIB, 32768).figures
    assert figures["block_size"] == 576
    assert figures["bytes_per_block"] == [12 * 1_179_648]
    assert figures["num_blocks"] == 40 * GIB // (12 * 1_179_648) == 3034
    assert figures["request_blocks"] == 3 * 3 + 57
    assert figures["max_concurrency"] == 3034 / 66
    assert figures["capacity_tokens"] == int(3034 / 66 * 32768) == 1_506_335
    assert figures["capacity_tokens"] != 3034 * 576


@pytest.mark.parametrize(
    ("batched", "windows", "blocks", "needed"),
    [(8192, 1089, 14726, 19_301_662_720), (2048, 321, 10118, 13_261_864_960)],
)
def test_gemma_3_27b_at_131072_tokens(batched: int, windows: int, blocks: int, needed: int) -> None:
    """Logical 11,173,625,856 bytes; vLLM charges every window 2 batches in flight.

    Windows: ceil((1,023 + 2 x T) / 16) + 1 blocks in each of 6 groups; the full layers 8,192.
    A block is 10 pages of 16 tokens x 16 heads x 256 x 2 bytes = 131,072.
    """
    logical = logical_cache(GEMMA_3_27B, Request(ctx=131072))
    assert logical.bytes == 11_173_625_856
    layout = size(GEMMA_3_27B, 131072, max_num_batched_tokens=batched)
    assert windows == -(-(1023 + 2 * batched) // 16) + 1
    assert blocks == 6 * windows + 131072 // 16
    assert layout.figures["bytes_per_block"] == [1_310_720]
    assert layout.figures["request_blocks"] == blocks
    assert layout.figures["needed_bytes_one_request"] == needed == blocks * 1_310_720
    assert layout.bytes == needed + 1_310_720  # and the null block


def test_the_pool_grows_by_requests_and_has_one_null_block() -> None:
    """(batch x 256 blocks + 1) x 2 MiB."""
    for batch in (1, 2, 7):
        assert size(LLAMA, 4096, batch=batch).bytes == (batch * 256 + 1) * 2_097_152


def test_a_window_is_charged_one_block_more_even_when_it_holds_everything() -> None:
    """Mistral 7B v0.1 at 2,048 tokens: 128 blocks of 16 tokens, and one."""
    spec = model(
        ("sliding",) * 32,
        {"sliding": (SlidingAttention(kv_heads=8, head_dim=128, window=4096),)},
        heads=32,
    )
    assert size(spec, 2048).figures["request_blocks"] == 129
    assert size(spec, 32768).figures["request_blocks"] == -(-(4095 + 16384) // 16) + 1


def test_unequal_pages_are_made_equal_by_longer_blocks() -> None:
    """MiMo-V2: 8 KV heads in windows, 4 in full layers, so those take blocks of 32 tokens."""
    spec = model(
        ("full", *["sliding"] * 5) * 8,
        {
            "full": (FullAttention(kv_heads=4, head_dim=192, v_head_dim=128),),
            "sliding": (SlidingAttention(kv_heads=8, head_dim=192, v_head_dim=128, window=128),),
        },
        heads=64,
    )
    groups = size(spec, 32768).figures["groups"]
    assert {(g["kind"], g["block_size"]) for g in groups} == {("full", 32), ("sliding", 16)}
    assert {g["page_bytes"] for g in groups} == {16 * 8 * (192 + 128) * 2}


def test_minicpm3_stores_its_latent_as_heads() -> None:
    """40 heads of 64 + 32 elements, K and V: 15,360 bytes a token and layer instead of 576."""
    latent = LatentAttention(
        kv_lora_rank=256, qk_rope_head_dim=32, qk_nope_head_dim=64, v_head_dim=64
    )
    spec = model(("mla",) * 62, {"mla": (latent,)}, heads=40, model_type="minicpm3")
    figures = size(spec, 32768).figures
    assert figures["bytes_per_block"] == [62 * 16 * 40 * 96 * 2 * 2]
    assert figures["bytes_per_block"][0] // 62 // 16 == 15360


def test_cross_attention_is_charged_batched_tokens_not_encoder_tokens() -> None:
    """Whisper: 8,192 / 16 = 512 blocks for 1,500 encoder tokens, besides 28 of its own."""
    spec = model(
        ("decoder",) * 32,
        {
            "decoder": (
                FullAttention(kv_heads=20, head_dim=64),
                CrossAttention(kv_heads=20, head_dim=64),
            )
        },
        heads=20,
        max_context=448,
    )
    assert size(spec).figures["request_blocks"] == 28 + 512


def test_longrope_models_start_at_their_original_length() -> None:
    """A 131,072-token Phi-3 serves 4,096 unless --max-model-len says otherwise."""
    spec = ModelSpec(
        name="phi",
        dtype="bfloat16",
        heads=32,
        max_context=131072,
        rope=Rope(type="longrope", original_max_context=4096),
        kinds={"full": (FullAttention(kv_heads=32, head_dim=96),)},
        layers=("full",) * 32,
    )
    assert size(spec).figures["max_model_len"] == 4096
    assert size(spec, 131072).figures["max_model_len"] == 131072


def test_chunks_are_charged_two_batches_in_flight() -> None:
    """Llama 4: ceil((8,192 + 2 x 8,192) / 16) = 1,536 blocks in each group of chunked layers."""
    spec = model(
        (("chunked",) * 3 + ("full",)) * 12,
        {
            "chunked": (ChunkedAttention(kv_heads=8, head_dim=128, chunk=8192),),
            "full": (FullAttention(kv_heads=8, head_dim=128),),
        },
        heads=40,
    )
    blocks = [group["request_blocks"] for group in size(spec, 131072).figures["groups"]]
    assert blocks == [1536, 1536, 1536, 8192]


def test_layers_that_share_a_cache_cost_nothing() -> None:
    """Only layers with a cache of their own are in a group."""
    spec = model(
        ("full",) * 20 + ("shared",) * 15,
        {
            "full": (FullAttention(kv_heads=2, head_dim=256),),
            "shared": (SharedCache(reads="full"),),
        },
        heads=8,
    )
    (group,) = size(spec, 4096).figures["groups"]
    assert group["layers"] == 20


def test_groups_narrower_than_a_block_waste_the_rest() -> None:
    """Nemotron-3-Nano: 23 + 6 layers make groups of 6, 6, 6, 5 and 6; a block is 6 pages wide."""
    figures = size(NEMOTRON_NANO, 8192).figures
    assert [group["layers"] for group in figures["groups"]] == [6, 6, 6, 5, 6]
    assert figures["block_size"] == 2096
    # conv 3 x 6,144 in bfloat16, matrix 64 x 64 x 128 in float32; 1,024 bytes a token.
    assert 3 * 6144 * 2 + 64 * 64 * 128 * 4 <= 2096 * 1024
    assert figures["bytes_per_block"] == [6 * 2096 * 1024]
