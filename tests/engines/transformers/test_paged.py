"""The paged cache: the smallest pool, the pool out of free memory, and what it refuses."""

from __future__ import annotations

import pytest

from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import ChunkedAttention, FullAttention, SharedCache, SlidingAttention

ENGINE = TransformersEngine()
FULL = FullAttention(kv_heads=4, head_dim=256)
LOCAL = SlidingAttention(kv_heads=4, head_dim=256, window=4096)


def model(layers: tuple[str, ...]) -> ModelSpec:
    return ModelSpec(
        name="model",
        dtype="bfloat16",
        heads=8,
        hidden_size=2304,
        vocab_size=256_000,
        kinds={"full": (FULL,), "local": (LOCAL,)},
        layers=layers,
    )


PLAIN = model(("full",) * 26)
MIXED = model(("local", "full") * 13)


def paged(**options: object) -> dict[str, str]:
    return {"cache_implementation": "paged", **{k: str(v) for k, v in options.items()}}


def test_the_pool_of_a_batch_is_whole_blocks_and_two_trash_sectors() -> None:
    """3 sequences of 1,000 tokens: 4 blocks of 256 each, a sector is one block of all layers."""
    layout = ENGINE.layout(PLAIN, Request(ctx=1000, batch=3, options=paged()))
    block = 2 * 4 * 256 * 2 * 256 * 26

    assert layout.figures["num_sectors"] == 3 * 4
    assert layout.bytes == (12 + 2) * block


def test_a_window_takes_a_ring_of_blocks() -> None:
    """9,000 tokens: 36 blocks of full layers, 16 of the window of 4,096."""
    layout = ENGINE.layout(MIXED, Request(ctx=9000, options=paged()))

    assert layout.figures["num_sectors"] == 36 + 16


@pytest.mark.parametrize(
    ("spec", "attention", "free", "sectors"),
    [
        (PLAIN, "flash_attention_2", 80 << 30, 2686),
        (PLAIN, "flash_attention_2", 5_000_000_000, 114),
        (PLAIN, "sdpa", 80 << 30, 2226),
        (MIXED, "flash_attention_2", 80 << 30, 5181),
        (MIXED, "sdpa", 80 << 30, 3074),
        (MIXED, "sdpa", 5_000_000_000, 119),
    ],
)
def test_sectors_out_of_free_memory(
    spec: ModelSpec, attention: str, free: int, sectors: int
) -> None:
    """The library's own sizing (numbers from its PagedAttentionMemoryHandler, 5.24.0)."""
    options = paged(max_memory_percent=0.9, attn_implementation=attention)
    layout = ENGINE.fit(spec, Request(ctx=1000, options=options), "", free)

    assert layout.figures["num_sectors"] == sectors


def test_the_largest_batch_of_a_pool_is_exact() -> None:
    """One more sequence needs a sector that is not there."""
    free = 3_000_000_000
    figures = ENGINE.fit(MIXED, Request(ctx=3000, options=paged()), "", free).figures
    batch = figures["max_batch_at_ctx"]
    at = ENGINE.layout(MIXED, Request(ctx=3000, batch=batch, options=paged())).bytes
    above = ENGINE.layout(MIXED, Request(ctx=3000, batch=batch + 1, options=paged())).bytes

    assert at <= free < above


def test_layers_that_it_cannot_page_are_refused() -> None:
    """Chunks have no pages; KV heads must divide by the ranks."""
    chunked = ModelSpec(
        name="chunked",
        dtype="bfloat16",
        kinds={"c": (ChunkedAttention(chunk=64, kv_heads=4, head_dim=64),)},
        layers=("c",),
    )
    layout = ENGINE.layout(chunked, Request(ctx=10, options=paged()))
    split = ENGINE.layout(PLAIN, Request(ctx=10, tp=8, options=paged()))

    assert layout.refusal is not None
    assert layout.refusal.code == "layer-kind-unsupported"
    assert layout.refusal.figures == {"kinds": ["chunked_attention"]}
    assert split.refusal is not None
    assert split.refusal.code == "heads-not-divisible"
    assert split.refusal.figures == {"kv_heads": 4, "tp": 8}


def test_each_rank_has_its_heads() -> None:
    """Two ranks of half the pages."""
    layout = ENGINE.layout(PLAIN, Request(ctx=256, tp=2, options=paged()))

    assert [rank.bytes for rank in layout.ranks] == [3 * 2 * 2 * 256 * 2 * 256 * 26] * 2


def test_layers_that_share_a_cache_are_not_modelled() -> None:
    """The library pages them by their own type; kvplan does not guess at it."""
    shared = ModelSpec(
        name="shared",
        dtype="bfloat16",
        kinds={"full": (FULL,), "shared": (SharedCache(reads="full"),)},
        layers=("full", "shared"),
    )

    with pytest.raises(UsageError, match="not modelled in the paged cache"):
        ENGINE.layout(shared, Request(ctx=10, options=paged()))


def test_4_57_is_not_modelled() -> None:
    """Its pool has another shape."""
    with pytest.raises(UsageError, match=r"4\.57\.6 is not modelled"):
        ENGINE.layout(PLAIN, Request(ctx=10, options=paged()), "4.57.6")
