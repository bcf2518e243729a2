"""The short label of a model's attention."""

from __future__ import annotations

import pytest

from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    ShortConvolution,
)
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)

FULL = FullAttention(kv_heads=8, head_dim=128)
WINDOW = SlidingAttention(kv_heads=8, head_dim=128, window=1024)
LATENT = LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64)
MAMBA1 = Mamba1(conv_kernel=4, intermediate_size=64, state_size=16)
MAMBA2 = Mamba2(conv_kernel=4, num_heads=8, head_dim=64, state_size=128, n_groups=1)
DELTA = GatedDeltaNet(conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128)
KDA = KimiDeltaAttention(conv_kernel=4, num_heads=32, head_dim=128)


def label(*layers, heads=32) -> str:
    kinds = {str(index): states for index, states in enumerate(layers)}
    return attention_label(ModelSpec(name="x", heads=heads, kinds=kinds, layers=tuple(kinds)))


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ([(FullAttention(kv_heads=32, head_dim=64),)], "mha"),
        ([(FULL,)], "gqa"),
        ([(FullAttention(kv_heads=1, head_dim=64),)], "mqa"),
        ([(LATENT,)], "mla"),
        ([(WINDOW,), (FULL,)], "gqa+sliding"),
        ([(FULL,), (ChunkedAttention(kv_heads=8, head_dim=128, chunk=8192),)], "gqa+chunked"),
        ([(LATENT, Indexer(head_dim=128))], "mla+sparse-indexer(DSA)"),
        ([(LATENT,), (LATENT, Indexer(head_dim=128))], "mla+sparse-indexer(DSA)"),
        ([(FULL, Indexer(head_dim=128, kv_heads=4, ratio=128))], "gqa+sparse-blocks"),
        ([(CompressedLatent(head_dim=512, window=128, ratio=4),)], "mqa+compressed-kv"),
        ([(MAMBA2,), (FULL,), ()], "gqa+hybrid-mamba"),
        ([(MAMBA1,), (MAMBA2,), (FULL,)], "gqa+hybrid-mamba"),
        ([(DELTA,), (FULL,)], "gqa+hybrid-linear"),
        ([(KDA,), (LATENT,)], "mla+hybrid-linear(KDA)"),
        ([(ShortConvolution(conv_kernel=3, channels=64),), (FULL,)], "gqa+hybrid-conv"),
        ([(LinearRecurrentUnit(conv_kernel=4, width=64),), (WINDOW,)], "gqa+sliding+hybrid-lru"),
        ([(FULL, CrossAttention(kv_heads=8, head_dim=64))], "gqa+encoder-decoder"),
        ([(FULL,), (CrossAttention(kv_heads=8, head_dim=64),)], "gqa+cross-attention"),
        ([(MAMBA1,)], "attention-free"),
        ([()], "none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels(layers, text):
    """What a KV head is shared by, then every other mechanism in a fixed order."""
    assert label(*layers) == text


def test_shared_layers_change_no_label():
    """They keep nothing of their own."""
    assert label((FULL,), (SharedCache(reads="0"),)) == "gqa"


def test_layers_that_differ_in_heads_are_grouped_as_a_whole():
    """Some of 32 heads, some of 8."""
    assert label((FullAttention(kv_heads=32, head_dim=64),), (FULL,)) == "gqa"


def test_one_head_of_one_is_plain_attention():
    """Nothing is shared where there is one query head."""
    assert label((FullAttention(kv_heads=1, head_dim=64),), heads=1) == "mha"


def test_a_states_own_heads_go_before_the_models():
    """8 of 8 in this layer, whatever the others have."""
    assert label((FullAttention(kv_heads=8, head_dim=64, heads=8),)) == "mha"


def test_query_heads_that_are_not_known() -> None:
    """Several KV heads without a count of query heads may be either."""
    spec = ModelSpec(name="x", kinds={"a": (FullAttention(kv_heads=4, head_dim=8),)}, layers=("a",))

    assert attention_label(spec) == "mha/gqa"
