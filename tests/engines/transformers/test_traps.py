"""The figures of transformers that surprise, each with its arithmetic written out."""

from __future__ import annotations

import pytest

from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet, Mamba2
from kvplan.spec.states import (
    CompressedLatent,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)

ENGINE = TransformersEngine()


def model(layers: tuple[str, ...], heads: int | None = None, **kinds: object) -> ModelSpec:
    model_type = kinds.pop("model_type", None)
    return ModelSpec(  # type: ignore[arg-type]
        name="model",
        dtype="bfloat16",
        heads=heads,
        model_type=model_type,
        kinds={
            name: states if isinstance(states, tuple) else (states,)
            for name, states in kinds.items()
        },
        layers=layers,
    )


MLA = LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128)
DEEPSEEK_V3 = model(("mla",) * 61, heads=128, mla=MLA)
MISTRAL = model(
    ("local",) * 32, heads=32, local=SlidingAttention(window=4096, kv_heads=8, head_dim=128)
)


def test_mla_is_compressed_since_5_15_and_71_times_larger_before() -> None:
    """70,272 bytes per token of DeepSeek-V3, or 4,997,120: the boundary is 5.15."""
    compressed = (512 + 64) * 2 * 61
    decompressed = 128 * (128 + 64 + 128) * 2 * 61

    assert (compressed, decompressed) == (70_272, 4_997_120)
    for version, per_token in (
        ("5.24.0", compressed),
        ("5.15.0", compressed),
        ("5.14.1", decompressed),
        ("4.57.6", decompressed),
    ):
        layout = ENGINE.layout(DEEPSEEK_V3, Request(ctx=1000), version)
        assert layout.bytes == 1000 * per_token
        assert layout.figures["next_token_bytes"] == per_token
    assert decompressed // compressed == 71


def test_decompressed_mla_says_why() -> None:
    """The sentence names the heads, the widths and the version that stopped it."""
    layout = ENGINE.layout(DEEPSEEK_V3, Request(ctx=10), "4.57.6")

    assert layout.reasons[0] == (
        "transformers 4.57.6 decompresses MLA before it caches: 128 heads x (192 K + 128 V) = "
        "40,960 elements per token and layer where the latent has 576; 5.15 and later cache that"
    )


def test_a_sliding_layer_keeps_window_minus_one() -> None:
    """4,095 of 4,096: the next token brings its own K and V."""
    layout = ENGINE.layout(MISTRAL, Request(ctx=9000))
    per_token = 32 * 8 * (128 + 128) * 2

    assert layout.bytes == 4095 * per_token == 536_739_840
    assert logical_cache(MISTRAL, Request(ctx=9000)).bytes == 4096 * per_token


def test_a_prefill_stays_alive_behind_the_views() -> None:
    """9,000 tokens are held until the next step, then exactly the window."""
    per_token = 32 * 8 * (128 + 128) * 2
    prefilled = ENGINE.layout(MISTRAL, Request(ctx=9000))
    decoded = ENGINE.layout(MISTRAL, Request(ctx=9001, options={"prefill": "9000"}))

    assert prefilled.figures["storage_bytes"] == 9000 * per_token == 1_179_648_000
    assert decoded.figures["storage_bytes"] == 4096 * per_token == 536_870_912
    assert prefilled.figures["storage_bytes_after_decode"] == 536_870_912
    assert decoded.bytes == 536_739_840
    assert any("1,179,648,000 bytes are held" in reason for reason in prefilled.reasons)


def test_a_chunked_prefill_holds_window_and_chunk() -> None:
    """9,000 in chunks of 2,048: the last brings 808 tokens to the 4,095 kept before it."""
    layout = ENGINE.layout(MISTRAL, Request(ctx=9000, options={"prefill_chunk_size": "2048"}))

    assert 9000 - 4 * 2048 == 808
    assert layout.figures["storage_bytes"] == (4095 + 808) * 32 * 8 * (128 + 128) * 2


def test_a_static_cache_has_the_whole_window() -> None:
    """Slots are window (not window - 1), and are there from the first token on."""
    layout = ENGINE.layout(
        MISTRAL,
        Request(ctx=10, options={"cache_implementation": "static", "max_cache_len": "9000"}),
    )

    assert layout.bytes == layout.figures["storage_bytes"] == 4096 * 32 * 8 * (128 + 128) * 2


def test_falcon_40b_caches_all_128_heads() -> None:
    """16 times the 8 KV heads; one multi-query head stays one."""
    grouped = model(
        ("full",) * 60, heads=128, full=FullAttention(kv_heads=8, head_dim=64), model_type="falcon"
    )
    single = model(
        ("full",) * 32, heads=71, full=FullAttention(kv_heads=1, head_dim=64), model_type="falcon"
    )

    assert ENGINE.layout(grouped, Request(ctx=1)).bytes == 60 * 128 * (64 + 64) * 2 == 1_966_080
    assert logical_cache(grouped, Request(ctx=1)).bytes * 16 == 1_966_080
    assert ENGINE.layout(single, Request(ctx=1)).bytes == 32 * 1 * (64 + 64) * 2


def test_qwen3_next_states() -> None:
    """All 4 columns of the convolution in bfloat16, the matrix in float32, per linear layer."""
    delta = GatedDeltaNet(k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128, conv_kernel=4)
    spec = model(
        ("linear", "linear", "linear", "full") * 12,
        linear=delta,
        full=FullAttention(kv_heads=2, head_dim=256),
    )
    channels = 2 * 16 * 128 + 32 * 128
    states = 36 * (channels * 4 * 2 + 32 * 128 * 128 * 4)

    assert channels == 8192
    token = 12 * 2 * (256 + 256) * 2
    logical_states = 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)

    assert states == 77_856_768
    assert ENGINE.layout(spec, Request(ctx=1)).bytes == states + token
    assert logical_cache(spec, Request(ctx=1)).bytes == logical_states + token


def test_the_matrix_is_float32_whatever_the_config_says() -> None:
    """A spec with a 16-bit state (mamba_ssm_dtype) still costs 4 bytes per element here."""
    state = Mamba2(
        num_heads=8, head_dim=64, state_size=128, n_groups=1, conv_kernel=4, dtype="float16"
    )
    layout = ENGINE.layout(model(("m",), m=state), Request(ctx=5))

    assert layout.bytes == (8 * 64 + 2 * 128) * 4 * 2 + 8 * 64 * 128 * 4
    assert "the recurrent matrix is kept in float32, not in float16" in layout.reasons


def test_an_indexer_costs_16_bits_per_element() -> None:
    """DeepSeek-V3.2: 61 x (1,152 + 256) bytes per token; servers keep 132 for the 256."""
    spec = model(("dsa",) * 61, heads=128, dsa=(MLA, Indexer(head_dim=128)))

    assert ENGINE.layout(spec, Request(ctx=1)).bytes == 61 * (576 * 2 + 128 * 2) == 85_888


def test_deepseek_v4_holds_less_than_it_lists_and_more_after_a_prefill() -> None:
    """K and V are one storage; the buffers are views of the projections of the whole prefill."""
    state = CompressedLatent(head_dim=512, window=128, ratio=128)
    layout = ENGINE.layout(model(("hca",), hca=state), Request(ctx=200))
    kept = 127 * 512 * 2
    buffer = (200 - 128) * 512 * 2
    compressed = 1 * 512 * 2

    assert layout.bytes == 2 * kept + 2 * buffer + compressed
    assert layout.figures["storage_bytes"] == 200 * 512 * 2 + 2 * 200 * 512 * 2 + compressed


def test_layers_that_share_a_cache_add_tensors_in_4_57_but_no_memory() -> None:
    """4.57 keeps the K and V it hands over under a second name; 5.x passes them by."""
    spec = model(
        ("full", "shared"),
        full=FullAttention(kv_heads=2, head_dim=64),
        shared=SharedCache(reads="full"),
    )
    one_layer = 10 * 2 * (64 + 64) * 2

    assert ENGINE.layout(spec, Request(ctx=10)).bytes == one_layer
    old = ENGINE.layout(spec, Request(ctx=10), "4.57.6")
    assert (old.bytes, old.figures["storage_bytes"]) == (2 * one_layer, one_layer)


def test_an_encoder_decoder_has_two_caches() -> None:
    """whisper-large-v3: 32 layers x 2 x 1,500 x 1,280 x 2 bytes beside the self attention."""
    states = (FullAttention(kv_heads=20, head_dim=64), CrossAttention(kv_heads=20, head_dim=64))
    layout = ENGINE.layout(model(("dec",) * 32, dec=states), Request(ctx=1, encoder_tokens=1500))
    names = {tensor.name.split(".")[0] for tensor in layout.ranks[0].tensors}

    assert layout.bytes == 245_760_000 + 32 * 2 * 1 * 1280 * 2
    assert names == {"self_attention_cache", "cross_attention_cache"}


def test_gpt_neo_keeps_everything_and_mimo_its_whole_window() -> None:
    """What only the class of a model_type decides."""
    local = SlidingAttention(window=128, kv_heads=8, head_dim=64)
    plain = ENGINE.layout(model(("l",), l=local), Request(ctx=1000)).bytes
    neo = ENGINE.layout(model(("l",), l=local, model_type="gpt_neo"), Request(ctx=1000)).bytes
    mimo = ENGINE.layout(
        model(("l",), l=local, model_type="mimo_v2_flash"), Request(ctx=1000)
    ).bytes
    per_token = 8 * (64 + 64) * 2

    assert (plain, neo, mimo) == (127 * per_token, 1000 * per_token, 128 * per_token)


def test_query_heads_of_a_latent_are_split_too() -> None:
    """128 heads over 7 ranks do not divide; DeepSeek-V3's plan leaves attention whole."""
    v32 = model(("mla",) * 2, heads=128, mla=MLA, model_type="deepseek_v32")
    with pytest.raises(UsageError, match="cannot split 128 attention heads over 7 ranks"):
        ENGINE.layout(v32, Request(ctx=10, tp=7))
    v3 = model(("mla",) * 2, heads=128, mla=MLA, model_type="deepseek_v3")
    for spec, tp in ((v32, 8), (v3, 7)):
        ranks = ENGINE.layout(spec, Request(ctx=10, tp=tp)).ranks
        assert [rank.bytes for rank in ranks] == [2 * 10 * (512 + 64) * 2] * tp
    before = ENGINE.layout(v3, Request(ctx=10, tp=2), "4.57.6")
    assert before.ranks[0].bytes == 2 * 10 * 128 * (192 + 128) * 2
