"""The logical cache: known models to the byte, and what holds for every model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet, ShortConvolution
from kvplan.spec.states import (
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)
from tests.strategies import attention_states, cross_states, fixed_states, specs


def model(*runs, dtype="bfloat16", **facts) -> ModelSpec:
    """A model of runs of (number of layers, states); states of one kind share its name."""
    kinds, layers = {}, []
    for count, *states in runs:
        name = "+".join(state.kind for state in states) or "none"
        kinds[name] = tuple(states)
        layers += [name] * count
    return ModelSpec(name="tiny", dtype=dtype, kinds=kinds, layers=tuple(layers), **facts)


LLAMA3_8B = model((32, FullAttention(kv_heads=8, head_dim=128)))

# name, model, ctx, batch, dtype, bytes
KNOWN = [
    # 32 sequences x 32 layers x 131,072 tokens x 2 x 8 x 128 x 2 B
    ("llama3-8b", LLAMA3_8B, 131072, 32, "auto", 549755813888),
    ("llama3-8b fp8", LLAMA3_8B, 131072, 32, "fp8", 274877906944),
    # 32 layers x 4096 x 2 x 32 x 128 x 2
    ("llama-2-7b", model((32, FullAttention(kv_heads=32, head_dim=128))), 4096, 1, "auto", 2**31),
    # 32 layers x 2048 x 2 x 1 x 64 x 2
    ("falcon-7b", model((32, FullAttention(kv_heads=1, head_dim=64))), 2048, 1, "auto", 2**24),
    # (52 layers x 1024 + 10 layers x 131,072) x 2 x 16 x 128 x 2
    (
        "gemma-3-27b",
        model(
            (52, SlidingAttention(kv_heads=16, head_dim=128, window=1024)),
            (10, FullAttention(kv_heads=16, head_dim=128)),
        ),
        131072,
        1,
        "auto",
        11173625856,
    ),
    # 61 layers x 131,072 x (512 + 64) x 2
    (
        "deepseek-v3",
        model((61, LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64))),
        131072,
        1,
        "auto",
        9210691584,
    ),
    # 32 layers x 4096 x 2 x 8 x 128 x 2
    (
        "mistral-7b-v0.1",
        model((32, SlidingAttention(kv_heads=8, head_dim=128, window=4096))),
        32768,
        1,
        "auto",
        536870912,
    ),
    # 18 layers x (128 + 131,072) x 2 x 8 x 64 x 2
    (
        "gpt-oss-120b",
        model(
            (18, SlidingAttention(kv_heads=8, head_dim=64, window=128)),
            (18, FullAttention(kv_heads=8, head_dim=64)),
        ),
        131072,
        1,
        "auto",
        4836556800,
    ),
    # 12 layers x 131,072 x 2 x 2 x 256 x 2, and 36 x (8192 x 3 x 2 + 32 x 128 x 128 x 4)
    (
        "qwen3-next-80b",
        model(
            (
                36,
                GatedDeltaNet(
                    conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128
                ),
            ),
            (12, FullAttention(kv_heads=2, head_dim=256)),
        ),
        131072,
        1,
        "auto",
        3298492416,
    ),
    # (36 layers x 8192 + 12 layers x 131,072) x 2 x 8 x 128 x 2
    (
        "llama-4-scout",
        model(
            (36, ChunkedAttention(kv_heads=8, head_dim=128, chunk=8192)),
            (12, FullAttention(kv_heads=8, head_dim=128)),
        ),
        131072,
        1,
        "auto",
        7650410496,
    ),
    # 16 layers x 131,072 x 2 x 4 x 256 x 2, and 48 x (10240 x 3 x 2 + 48 x 128 x 128 x 4)
    (
        "qwen3.6-27b",
        model(
            (
                48,
                GatedDeltaNet(
                    conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=48, v_head_dim=128
                ),
            ),
            (16, FullAttention(kv_heads=4, head_dim=256)),
        ),
        131072,
        1,
        "auto",
        8743878656,
    ),
    # 78 layers x 131,072 x 576 x 2, and 21 of them with an indexer of 128 x 2 a token
    (
        "glm-5.2",
        model(
            (57, LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64)),
            (21, LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64), Indexer(head_dim=128)),
        ),
        131072,
        1,
        "auto",
        12482248704,
    ),
]


@pytest.mark.parametrize(
    ("spec", "ctx", "batch", "dtype", "size"), [row[1:] for row in KNOWN], ids=[r[0] for r in KNOWN]
)
def test_known_models_to_the_byte(spec, ctx, batch, dtype, size):
    """Each figure is the product in the comment above it."""
    assert logical_cache(spec, Request(ctx=ctx, batch=batch, dtype=dtype)).bytes == size


@pytest.mark.parametrize(
    ("dtype", "token"),
    [
        ("float32", 8192),  # 2 x 1,024 elements x 4 B
        ("int4", 1024),  # 2 x 1,024 / 2
        ("nvfp4", 1152),  # 2 x 64 blocks x 9
        ("mxfp4", 1088),  # 2 x 32 blocks x 17
        ("mxfp8", 2112),  # 2 x 32 blocks x 33
        ("q8_0", 2176),  # 2 x 32 blocks x 34
        ("fp8_per_token_head", 2112),  # 2 x 8 x (128 + 4)
    ],
)
def test_formats_with_scales_count_them(dtype, token):
    """16 layers of 8 heads of 128, 1,000 tokens."""
    spec = model((16, FullAttention(kv_heads=8, head_dim=128)))

    assert logical_cache(spec, Request(ctx=1000, dtype=dtype)).bytes == 16 * 1000 * token


def test_k_and_v_in_different_formats():
    """One layer, 10 tokens: 10 x (1,088 B of K in q8_0 + 576 B of V in q4_0)."""
    spec = model((1, FullAttention(kv_heads=8, head_dim=128)))
    request = Request(ctx=10, dtype_k="q8_0", dtype_v="q4_0")

    assert logical_cache(spec, request).bytes == 16640


def test_one_more_token_is_the_marginal_cost_at_ctx():
    """Below its window a sliding layer still grows, above it no longer."""
    spec = model(
        (3, SlidingAttention(kv_heads=1, head_dim=8, window=100)),
        (2, FullAttention(kv_heads=1, head_dim=8)),
    )

    assert logical_cache(spec, Request(ctx=99)).bytes_per_token == 5 * 32  # 2 x 1 x 8 x 2
    assert logical_cache(spec, Request(ctx=100)).bytes_per_token == 2 * 32


def test_recurrent_states_are_the_fixed_part():
    """3 convolutions of 100 channels x 2 columns x 2 bytes beside one growing layer."""
    spec = model(
        (3, ShortConvolution(channels=100, conv_kernel=3)),
        (1, FullAttention(kv_heads=1, head_dim=8)),
    )
    logical = logical_cache(spec, Request(ctx=10, batch=2))

    assert logical.fixed_bytes_per_sequence == 1200
    assert logical.bytes_per_sequence == 1200 + 320
    assert logical.bytes == 3040


def test_cross_attention_keeps_the_encoders_tokens():
    """2 x 6 x 64 x 2 = 1,536 bytes for each of 1,500 tokens: fixed, when the model fixes them."""
    spec = model((4, CrossAttention(kv_heads=6, head_dim=64)), encoder_tokens=1500)
    logical = logical_cache(spec, Request(ctx=10))

    assert logical.bytes == 4 * 1500 * 1536
    assert logical.fixed_bytes_per_sequence == logical.bytes
    assert logical.bytes_per_token == 0


def test_encoder_tokens_of_the_request_go_before_the_models():
    """--encoder-tokens 100 of 1,500."""
    spec = model((1, CrossAttention(kv_heads=6, head_dim=64)), encoder_tokens=1500)

    assert logical_cache(spec, Request(ctx=10, encoder_tokens=100)).bytes == 100 * 1536


def test_an_encoder_of_unknown_length_follows_the_context():
    """Then it is no fixed part, and one more token costs one more entry."""
    spec = model((1, CrossAttention(kv_heads=6, head_dim=64)))
    logical = logical_cache(spec, Request(ctx=10))

    assert (logical.bytes, logical.bytes_per_token) == (15360, 1536)
    assert logical.fixed_bytes_per_sequence == 0


def test_shared_layers_cost_nothing():
    """Two layers of 32 bytes a token; the third reads the second."""
    spec = model((2, FullAttention(kv_heads=1, head_dim=8)), (1, SharedCache(reads="full")))

    assert logical_cache(spec, Request(ctx=10)).bytes == 640


def test_draft_layers_count_only_when_asked_for():
    """One extra layer beside two."""
    spec = model((2, FullAttention(kv_heads=1, head_dim=8))).replaced(draft_layers=("full",))

    assert logical_cache(spec, Request(ctx=10)).bytes == 640
    assert logical_cache(spec, Request(ctx=10, with_draft=True)).bytes == 960


def test_a_model_that_keeps_nothing_costs_nothing():
    """No share, no bytes, no division by zero."""
    logical = logical_cache(model((4,)), Request(ctx=10))

    assert (logical.bytes, logical.bytes_per_token, logical.shares) == (0, 0, ())


def test_the_context_defaults_to_the_models_maximum():
    """And without one it has to be said."""
    spec = model((1, FullAttention(kv_heads=1, head_dim=8)), max_context=500)

    assert logical_cache(spec, Request()).ctx == 500
    with pytest.raises(UsageError, match="tiny does not say how long its context is"):
        logical_cache(spec.replaced(max_context=None), Request())


def test_auto_is_the_format_the_checkpoint_declares_for_its_cache():
    """kv_dtype goes before dtype, --dtype before both."""
    spec = model((1, FullAttention(kv_heads=1, head_dim=8)), kv_dtype="fp8_e4m3")

    assert logical_cache(spec, Request(ctx=1)).dtypes.k.name == "fp8_e4m3"
    assert logical_cache(spec, Request(ctx=1, dtype="fp16")).dtypes.k.name == "float16"


def test_a_model_that_names_no_format_needs_one():
    """`auto` is never a guess."""
    spec = model((1, FullAttention(kv_heads=1, head_dim=8)), dtype=None)

    assert logical_cache(spec, Request(ctx=1, dtype="bf16")).bytes == 32
    with pytest.raises(UsageError, match="tiny does not say which format it runs in"):
        logical_cache(spec, Request(ctx=1))


def test_convolutions_need_the_models_own_format():
    """fp8 says nothing about the columns of a model that names no format; bf16 is evidence."""
    spec = model((1, ShortConvolution(channels=100, conv_kernel=3)), dtype=None)

    assert logical_cache(spec, Request(ctx=1, dtype="bf16")).bytes == 400
    with pytest.raises(UsageError, match="its convolution states follow it"):
        logical_cache(spec, Request(ctx=1, dtype="fp8"))


def test_convolutions_that_name_their_format_need_no_other():
    """100 channels x 2 columns x 4 bytes."""
    state = ShortConvolution(channels=100, conv_kernel=3, conv_dtype="float32")

    assert logical_cache(model((1, state), dtype=None), Request(ctx=1, dtype="fp8")).bytes == 800


@pytest.mark.parametrize("text", ["", " ", "fp7"])
@pytest.mark.parametrize("field", ["dtype", "dtype_k", "dtype_v"])
def test_an_unknown_format_names_its_option(field, text):
    """An empty one is unknown too, not absent."""
    spec = model((1, FullAttention(kv_heads=1, head_dim=8)))
    option = "--" + field.replace("_", "-")

    with pytest.raises(UsageError, match=f"^{option} '{text}' is not a known cache format"):
        logical_cache(spec, Request(ctx=1, **{field: text}))


@pytest.mark.parametrize("field", ["ctx", "batch", "encoder_tokens", "tp", "pp", "dp", "dcp"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 1024.0, True, "8", 2**40 + 1])
def test_a_request_takes_whole_positive_counts_only(field, value):
    """Through the library as through the command line."""
    with pytest.raises(UsageError, match=f"^{field} .* is not a whole number in 1 "):
        Request(**{field: value})


SPECS = specs(text=st.sampled_from("abcd"))
CTX = st.integers(1, 3000)
FORMATS = st.sampled_from(["auto", "fp32", "fp8", "int4", "nvfp4", "q5_1", "int8_per_token_head"])


@given(SPECS, CTX, CTX, FORMATS)
def test_bytes_never_fall_when_the_context_grows(spec, ctx, more, dtype):
    """A longer sequence keeps at least as much."""
    short = logical_cache(spec, Request(ctx=ctx, dtype=dtype))
    long = logical_cache(spec, Request(ctx=ctx + more, dtype=dtype))

    assert short.bytes <= long.bytes


@given(SPECS, CTX, FORMATS)
def test_one_more_token_costs_what_bytes_per_token_says(spec, ctx, dtype):
    """Exactly the difference of two sizes, layer kinds with windows and ratios included."""
    now = logical_cache(spec, Request(ctx=ctx, dtype=dtype))
    next_ = logical_cache(spec, Request(ctx=ctx + 1, dtype=dtype))

    assert next_.bytes_per_sequence - now.bytes_per_sequence == now.bytes_per_token


@given(SPECS, CTX, st.integers(1, 1000), FORMATS)
def test_batch_is_linear(spec, ctx, batch, dtype):
    """Sequences share nothing."""
    one = logical_cache(spec, Request(ctx=ctx, dtype=dtype))

    assert (
        logical_cache(spec, Request(ctx=ctx, batch=batch, dtype=dtype)).bytes == batch * one.bytes
    )


@given(SPECS, CTX, FORMATS, st.booleans())
def test_the_total_is_the_sum_over_layers(spec, ctx, dtype, with_draft):
    """Each layer as a model of its own, whichever kinds stand beside it."""
    names = (*spec.layers, *spec.draft_layers) if with_draft else spec.layers
    request = Request(ctx=ctx, dtype=dtype)
    alone = [spec.replaced(layers=(name,), draft_layers=()) for name in names]
    total = logical_cache(spec, request.replaced(with_draft=with_draft)).bytes

    assert total == sum(logical_cache(layer, request).bytes for layer in alone)


@given(st.integers(1, 8), st.sampled_from([64, 80]), CTX, CTX, FORMATS)
def test_a_window_that_is_never_full_is_full_attention(kv_heads, head_dim, ctx, more, dtype):
    """A window or chunk of at least ctx tokens drops nothing."""
    shape = {"kv_heads": kv_heads, "head_dim": head_dim}
    request = Request(ctx=ctx, dtype=dtype)
    full = logical_cache(model((2, FullAttention(**shape))), request).bytes
    for state in (
        SlidingAttention(**shape, window=ctx + more),
        SlidingAttention(**shape, window=ctx),
        ChunkedAttention(**shape, chunk=ctx + more),
    ):
        assert logical_cache(model((2, state)), request).bytes == full


@given(fixed_states, CTX, FORMATS)
def test_no_cache_format_and_no_context_reaches_a_fixed_state(state, ctx, dtype):
    """Recurrent states keep the formats their spec names."""
    spec = model((1, state))
    plain = logical_cache(spec, Request(ctx=1))
    other = logical_cache(spec, Request(ctx=ctx, dtype=dtype))

    assert other.bytes == plain.bytes == other.fixed_bytes_per_sequence


@given(attention_states | cross_states, CTX)
def test_fp8_takes_half_of_bf16_and_bf16_half_of_fp32(state, ctx):
    """Plain formats scale with their bits."""
    spec = model((3, state))
    sizes = [
        logical_cache(spec, Request(ctx=ctx, dtype=dtype)).bytes
        for dtype in ("fp8", "bf16", "fp32")
    ]

    assert sizes[1] == 2 * sizes[0]
    assert sizes[2] == 2 * sizes[1]


@given(SPECS, CTX)
def test_every_figure_is_an_integer(spec, ctx):
    """No float is anywhere on the way."""
    logical = logical_cache(spec, Request(ctx=ctx, dtype="nvfp4"))
    figures = (logical.bytes, logical.bytes_per_token, logical.fixed_bytes_per_sequence)

    assert [type(figure) for figure in figures] == [int, int, int]
