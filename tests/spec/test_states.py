"""Every kind of state: bytes of one entry and entries held, with the arithmetic written out."""

from __future__ import annotations

import pytest

from kvplan.dtypes import DTYPES, CacheDTypes
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    GenericRecurrent,
    KimiDeltaAttention,
    LightningAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    Rwkv,
    ShortConvolution,
)
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    FieldError,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)


def formats(k: str, v: str | None = None, model: str = "bfloat16") -> CacheDTypes:
    return CacheDTypes(DTYPES[k], DTYPES[v or k], DTYPES[model])


BF16 = formats("bfloat16")

# state, bytes of one entry in bf16, entries after 1, 1000 and 5000 tokens (with 77 of an encoder)
ATTENTION = [
    # K and V: 2 x 8 x 128 x 2
    (FullAttention(kv_heads=8, head_dim=128), 4096, (1, 1000, 5000)),
    # K of 192, V of 128: 4 x (192 + 128) x 2
    (FullAttention(kv_heads=4, head_dim=192, v_head_dim=128), 2560, (1, 1000, 5000)),
    # one head of 64: 2 x 1 x 64 x 2
    (FullAttention(kv_heads=1, head_dim=64), 256, (1, 1000, 5000)),
    # 2 x 16 x 128 x 2, at most the window
    (SlidingAttention(kv_heads=16, head_dim=128, window=1024), 8192, (1, 1000, 1024)),
    (ChunkedAttention(kv_heads=8, head_dim=128, chunk=4096), 4096, (1, 1000, 4096)),
    # encoder tokens, whatever the number of tokens
    (CrossAttention(kv_heads=6, head_dim=64), 1536, (77, 77, 77)),
    # one latent and one rotary key, no V: (512 + 64) x 2
    (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64), 1152, (1, 1000, 5000)),
    # 512 x 2; a window of 128, and one vector per 4 tokens: 1 + 0, 128 + 250, 128 + 1250
    (CompressedLatent(head_dim=512, window=128, ratio=4), 1024, (1, 378, 1378)),
    # window only
    (CompressedLatent(head_dim=512, window=128), 1024, (1, 128, 128)),
    # 128 x 2, one key per token
    (Indexer(head_dim=128), 256, (1, 1000, 5000)),
    # 4 keys x 128 x 2 per 128 tokens: 0, 7 (7.8), 39 (39.06)
    (Indexer(head_dim=128, kv_heads=4, ratio=128), 1024, (0, 7, 39)),
    (SharedCache(reads="full"), 0, (0, 0, 0)),
]

# state, bytes of one sequence: columns in bf16 (2 B), matrices in float32 (4 B)
FIXED = [
    # 8192 channels x 3 columns x 2 + 8192 x 16 x 4
    (Mamba1(conv_kernel=4, intermediate_size=8192, state_size=16), 573440),
    # 128 x 64 + 2 x 8 x 128 = 10240 channels x 3 x 2 + 128 x 64 x 128 x 4
    (
        Mamba2(conv_kernel=4, num_heads=128, head_dim=64, state_size=128, n_groups=8),
        4255744,
    ),
    # 2 x 16 x 128 + 32 x 128 = 8192 channels x 3 x 2 + 32 x 128 x 128 x 4
    (
        GatedDeltaNet(conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128),
        2146304,
    ),
    # 3 x 32 x 128 = 12288 channels x 3 x 2 + 32 x 128 x 128 x 4
    (KimiDeltaAttention(conv_kernel=4, num_heads=32, head_dim=128), 2170880),
    # 64 x 128 x 128 x 4, no convolution
    (LightningAttention(num_heads=64, head_dim=128), 4194304),
    # 2048 channels x 2 columns x 2
    (ShortConvolution(conv_kernel=3, channels=2048), 8192),
    # 2560 x 3 x 2 + 2560 x 4
    (LinearRecurrentUnit(conv_kernel=4, width=2560), 25600),
    # 2 shifts x 2048 x 2 + 32 heads x 64 x 64 x 4
    (Rwkv(hidden_size=2048, head_dim=64), 532480),
    # 10 x 20 x 4
    (GenericRecurrent(shape=(10, 20)), 800),
    # 100 x 3 x 2, no matrix
    (GenericRecurrent(channels=100, conv_kernel=4), 600),
]


@pytest.mark.parametrize(("state", "entry", "entries"), ATTENTION, ids=lambda x: str(x)[:40])
def test_attention_states(state, entry, entries):
    """Bytes of an entry times entries held is all there is."""
    assert state.entry_bytes(BF16) == entry
    assert tuple(state.entries(tokens, 77) for tokens in (1, 1000, 5000)) == entries


@pytest.mark.parametrize(("state", "size"), FIXED, ids=lambda x: str(x)[:40])
def test_fixed_states_are_one_entry_whatever_the_tokens(state, size):
    """Convolution columns in the model's format, recurrent matrices in float32."""
    assert state.entry_bytes(BF16) == size
    assert [state.entries(tokens, 77) for tokens in (1, 1000, 10**6)] == [1, 1, 1]
    assert not state.depends_on_context


@pytest.mark.parametrize(("state", "size"), FIXED, ids=lambda x: str(x)[:40])
def test_no_cache_format_reaches_a_fixed_state(state, size):
    """`--dtype q4_0` leaves columns in the model's format and matrices in float32."""
    assert state.entry_bytes(formats("q4_0")) == size


def test_columns_follow_the_model_and_matrices_follow_the_spec():
    """float32 model: 100 x 3 x 4; matrices named bf16: 10 x 2."""
    state = Mamba1(conv_kernel=4, intermediate_size=100, state_size=1, dtype="bf16")

    assert state.entry_bytes(formats("fp8_e4m3", model="float32")) == 1200 + 200


def test_columns_can_have_a_format_of_their_own():
    """conv_dtype float32: 100 channels x 3 columns x 4 bytes."""
    state = ShortConvolution(conv_kernel=4, channels=100, conv_dtype="float32")

    assert state.entry_bytes(BF16) == 1200


def test_k_and_v_take_their_own_formats():
    """8 x 128 elements: q8_0 32 blocks x 34 for K, q4_0 32 x 18 for V."""
    state = FullAttention(kv_heads=8, head_dim=128)

    assert state.entry_bytes(formats("q8_0", "q4_0")) == 1088 + 576


def test_a_latent_is_stored_in_the_format_of_k():
    """576 elements in fp8, whatever V is in."""
    state = LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64)

    assert state.entry_bytes(formats("fp8_e4m3", "bfloat16")) == 576


def test_scales_per_head_count_every_head_of_k_and_of_v():
    """2 x 8 x (128 + 4 bytes of scale)."""
    state = FullAttention(kv_heads=8, head_dim=128)

    assert state.entry_bytes(formats("int8_per_token_head")) == 2112


@pytest.mark.parametrize(("state", "entry", "entries"), ATTENTION, ids=lambda x: str(x)[:40])
def test_the_factors_of_an_entry_multiply_to_its_elements(state, entry, entries):
    """2 bytes per element in bf16."""
    product = 1
    for factor in state.factors:
        product *= factor.value

    assert entry in (0, 2 * product)


@pytest.mark.parametrize("value", [0, -1, 2**50 + 1])
def test_a_count_is_between_one_and_two_to_the_fifty(value):
    """The field is named, and the bound it breaks."""
    with pytest.raises(FieldError, match=r"window is .*, it must be at (least 1|most 2)") as caught:
        SlidingAttention(kv_heads=1, head_dim=64, window=value)

    assert caught.value.field == "window"


@pytest.mark.parametrize(
    ("make", "field", "message"),
    [
        (
            lambda: FullAttention(kv_heads=3, head_dim=64, heads=32),
            "kv_heads",
            "kv_heads 3 does not divide heads 32",
        ),
        (
            lambda: Rwkv(hidden_size=100, head_dim=64),
            "head_dim",
            "head_dim 64 does not divide hidden_size 100",
        ),
        (
            lambda: LightningAttention(num_heads=1, head_dim=1, dtype="fp7"),
            "dtype",
            "'fp7' is not a known format",
        ),
        (
            lambda: ShortConvolution(channels=1, conv_kernel=4, conv_dtype="fp7"),
            "conv_dtype",
            "'fp7' is not a known format",
        ),
        (lambda: GenericRecurrent(shape=(2, 0)), "shape", "shape [2, 0] has a size below 1"),
        (lambda: GenericRecurrent(shape=(2**30, 2**30)), "shape", "more than 2^50 elements"),
        (
            lambda: ShortConvolution(channels=2048),
            "conv_kernel",
            "of a short_conv state is missing",
        ),
        (
            lambda: Mamba1(intermediate_size=1, state_size=1),
            "conv_kernel",
            "conv_kernel of a mamba1 state is missing",
        ),
        (lambda: GenericRecurrent(), "shape", "neither a shape nor a convolution"),
        (lambda: GenericRecurrent(channels=5), "channels", "channels and conv_kernel come"),
        (lambda: SharedCache(reads=-1), "reads", "layers are counted from 0"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(make, field, message):
    """Each error names the field it is about."""
    with pytest.raises(FieldError) as caught:
        make()

    assert caught.value.field == field
    assert message in caught.value.message
