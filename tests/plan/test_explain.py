"""`explain`: other kinds of attention, and generation with and without a cache."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engines.request import Request
from kvplan.plan.explain import DEFAULT_TOKENS, explain, generation
from kvplan.plan.size import size
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import Mamba1
from kvplan.spec.states import (
    CompressedLatent,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)


def variants(*layers, ctx=1000, heads=32, **request) -> dict[str, int | None]:
    """Bytes of one sequence by variant, of a model whose layers are (states, count) pairs."""
    kinds = {str(index): states for index, (states, _) in enumerate(layers)}
    names = tuple(str(index) for index, (_, count) in enumerate(layers) for _ in range(count))
    spec = ModelSpec(name="x", dtype="bfloat16", heads=heads, kinds=kinds, layers=names)
    result = size(spec, request=Request(ctx=ctx, **request))
    return {row.name: row.bytes_per_sequence for row in explain(result).variants}


@pytest.mark.parametrize(
    ("tokens", "without", "with_", "ratio"),
    [
        (1, 1, 1, "1.00"),
        (2, 5, 3, "1.67"),  # 1 + 4 against 1 + 2
        (128, 707264, 8256, "85.67"),
        (512, 44870400, 131328, "341.67"),
        (1024, 358438400, 524800, "683.00"),
        (2048, 2865409024, 2098176, "1365.67"),
    ],
)
def test_generation_with_and_without_a_cache(tokens, without, with_, ratio):
    """sum(t^2) against sum(t): their ratio is (2n + 1)/3."""
    found = generation(tokens)

    assert (found.without_cache, found.with_cache) == (without, with_)
    assert f"{float(found.ratio):.2f}" == ratio


@given(st.integers(1, 500))
def test_the_closed_form_is_the_sum(tokens):
    """Step by step, and as (2n + 1)/3."""
    found = generation(tokens)

    assert found.without_cache == sum(t * t for t in range(1, tokens + 1))
    assert found.with_cache == sum(range(1, tokens + 1))
    assert found.ratio == Fraction(2 * tokens + 1, 3)


def test_the_usual_approximation_is_a_third_too_small():
    """2n/3 = 85.33 for 128, beside 85.67."""
    assert generation(128).approximation == Fraction(256, 3)
    assert generation(128).ratio - generation(128).approximation == Fraction(1, 3)


def test_the_lengths_explained_by_default():
    """128, 512, 1024 and 2048 tokens."""
    assert DEFAULT_TOKENS == (128, 512, 1024, 2048)


def test_a_grouped_model_beside_mha_and_mqa():
    """32 layers x 1,000 tokens x 2 x (8, 32 or 1) heads x 128 x 2 B."""
    assert variants(((FullAttention(kv_heads=8, head_dim=128),), 32)) == {
        "as it is (gqa)": 131_072_000,
        "MHA": 524_288_000,
        "MQA": 16_384_000,
    }


def test_plain_attention_is_shown_with_eight_groups():
    """32 heads: 8 KV heads are a quarter."""
    assert variants(((FullAttention(kv_heads=32, head_dim=128),), 32)) == {
        "as it is (mha)": 524_288_000,
        "MHA": 524_288_000,
        "GQA": 131_072_000,
        "MQA": 16_384_000,
    }


def test_a_latent_is_decompressed_into_heads():
    """As it is 576 elements; per head 128 + 64 of K and 128 of V, times 128, 8 or 1 heads."""
    latent = LatentAttention(
        kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
    )

    assert variants(((latent,), 61), heads=128) == {
        "as it is (mla)": 61 * 1000 * 576 * 2,
        "MHA": 61 * 1000 * 128 * 320 * 2,
        "GQA": 61 * 1000 * 8 * 320 * 2,
        "MQA": 61 * 1000 * 320 * 2,
    }


def test_an_indexer_is_a_row_of_its_own():
    """576 + 128 elements as it is; 576 without it; 320 + 128 with one K and V for all heads."""
    latent = LatentAttention(
        kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
    )
    found = variants(((latent, Indexer(head_dim=128)), 2), heads=128)

    assert found["as it is (mla+sparse-indexer(DSA))"] == 2 * 1000 * 704 * 2
    assert found["no indexer"] == 2 * 1000 * 576 * 2
    assert found["MQA"] == 2 * 1000 * (320 + 128) * 2


def test_what_a_hybrid_and_shared_layers_save():
    """Three layers of 1,000 tokens, 2 x 8 x 128 x 2 B, where one keeps them as it is."""
    own = FullAttention(kv_heads=8, head_dim=128)
    mamba = Mamba1(conv_kernel=4, intermediate_size=100, state_size=16)  # 600 + 6,400 bytes
    hybrid = variants(((mamba,), 2), ((own,), 1))
    assert hybrid["no recurrent layers"] == 3 * 1000 * 4096
    shared = variants(((own,), 1), ((SharedCache(reads="0"),), 2))
    assert shared["no shared layers"] == 3 * 1000 * 4096


def test_a_latent_of_unknown_heads_has_no_plain_variant():
    """Its K and V widths are not in the spec, so nothing is guessed."""
    found = variants(((LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),), 2))

    assert (found["MHA"], found["MQA"]) == (None, None)
    assert "GQA" not in found


def test_a_model_of_unknown_heads_has_no_plain_variant():
    """One K per query head needs the number of query heads."""
    assert variants(((FullAttention(kv_heads=8, head_dim=128),), 2), heads=None)["MHA"] is None


def test_windows_are_opened_in_one_row_and_kept_in_the_others():
    """5 layers of 100 tokens and one of 1,000, 2 x 8 x 128 x 2 B each; then 6 of 1,000."""
    shape = {"kv_heads": 8, "head_dim": 128}
    found = variants(((SlidingAttention(**shape, window=100),), 5), ((FullAttention(**shape),), 1))

    assert found == {
        "as it is (gqa+sliding)": 1500 * 4096,
        "no windows": 6000 * 4096,
        "MHA": 1500 * 16384,
        "MQA": 1500 * 512,
    }


def test_a_compressed_latent_becomes_heads_of_its_width():
    """64 heads of 512 for K and for V."""
    found = variants(((CompressedLatent(head_dim=512, window=128, ratio=4),), 1), heads=64)

    assert found["as it is (mqa+compressed-kv)"] == (128 + 250) * 512 * 2
    assert found["MHA"] == 1000 * 64 * 1024 * 2


def test_other_states_stay_as_they_are():
    """A recurrent state, a cross attention and a shared layer are not attention to rebuild."""
    mamba = Mamba1(conv_kernel=4, intermediate_size=100, state_size=16)  # 600 + 6,400 bytes
    cross = CrossAttention(kv_heads=2, head_dim=64)  # 512 bytes an encoder token
    own = FullAttention(kv_heads=8, head_dim=128)
    found = variants(
        ((mamba,), 3), ((own, cross), 1), ((SharedCache(reads="1"),), 1), encoder_tokens=50
    )

    assert found["MQA"] == 3 * 7000 + 50 * 512 + 1000 * 512


def test_a_model_without_attention_has_no_variants():
    """Nothing to rebuild."""
    mamba = Mamba1(conv_kernel=4, intermediate_size=100, state_size=16)

    assert list(variants(((mamba,), 3))) == ["as it is (attention-free)"]


def test_layers_of_different_heads_are_rebuilt_each_by_its_own():
    """12 query heads in one, 16 in the other: no common eight groups, but MHA and MQA."""
    found = variants(
        ((FullAttention(kv_heads=12, head_dim=64, heads=12),), 1),
        ((FullAttention(kv_heads=16, head_dim=64, heads=16),), 1),
    )

    assert found["MHA"] == 1000 * (12 + 16) * 2 * 64 * 2
    assert found["MQA"] == 1000 * 2 * 2 * 64 * 2
    assert "GQA" not in found


def test_variants_take_the_format_of_the_request():
    """fp8 halves every row."""
    assert variants(((FullAttention(kv_heads=8, head_dim=128),), 32), dtype="fp8") == {
        "as it is (gqa)": 65_536_000,
        "MHA": 262_144_000,
        "MQA": 8_192_000,
    }
