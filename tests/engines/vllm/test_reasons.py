"""The sentences about a plan, and the values vLLM settled by itself."""

from __future__ import annotations

from tests.engines.vllm.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V32,
    GEMMA_3_27B,
    LLAMA,
    QWEN3_NEXT,
    fit,
    size,
)


def test_windows_are_explained_with_the_tokens_in_flight() -> None:
    """Which groups, which charge, how wide a block."""
    first, *rest = size(GEMMA_3_27B, 131072).reasons
    assert first == (
        "each of 6 groups of sliding layers is charged window 1,024 - 1 + 2 x 8,192 in-flight "
        "tokens, and one block more because a window may start inside one: 1,089 blocks, 10 pages "
        "of 131,072 bytes wide"
    )
    assert any("6 of 7 groups leave up to 262,144 of them unused" in text for text in rest)


def test_a_short_request_is_charged_whole() -> None:
    """At 4,096 tokens the window and what is in flight exceed the request."""
    assert "all 4,096 tokens" in size(GEMMA_3_27B, 4096).reasons[0]


def test_a_plain_model_has_only_its_null_block_to_explain() -> None:
    """Whole blocks, no windows, nothing copied."""
    assert size(LLAMA, 4096).reasons == ("one block of 2,097,152 bytes is the pool's null block",)
    assert fit(LLAMA, 2**32, 4096).reasons == ()


def test_ranks_rows_and_formats_are_explained() -> None:
    """MLA on every rank, packed rows, copied heads."""
    text = " / ".join(size(DEEPSEEK_V32, 4096, tp=8, kv_cache_dtype="fp8").reasons)
    assert "each of 8 ranks stores all of it" in text
    assert "656 bytes" in text
    assert "132 bytes" in text
    assert "every head is stored 2 times" in " ".join(size(LLAMA, 4096, tp=16).reasons)


def test_states_are_explained() -> None:
    """How many a request takes, and why a block is that long."""
    text = " / ".join(size(QWEN3_NEXT, 32768).reasons)
    assert "blocks hold 576 tokens so that an attention page (1,179,648 bytes)" in text
    assert "one for a checkpoint inside a prefill: 3 blocks" in text
    assert "not in float32" in text


def test_every_default_is_recorded_with_its_origin() -> None:
    """GPU, length, tokens per step, format, block size, prefix caching, scheduling, utilisation."""
    notes = {note.option: note for note in size(DEEPSEEK_V3, tp=8).provenance}
    assert {
        "gpu", "max_model_len", "max_num_batched_tokens", "kv_cache_dtype", "block_size",
        "enable_prefix_caching", "async_scheduling", "gpu_memory_utilization", "kv_cache_layout",
    } <= set(notes)  # fmt: skip
    assert notes["block_size"].value == "16"
    assert "FLASH_ATTN_MLA" in notes["block_size"].origin
    assert notes["gpu_memory_utilization"].value == "0.92"
    assert all("vllm 0.33.0" in n.origin or "kvplan" in n.origin for n in notes.values())


def test_what_the_user_gives_is_no_default() -> None:
    """A block size that was asked for is not noted."""
    notes = {note.option for note in size(LLAMA, 4096, block_size=32, gpu="h200").provenance}
    assert not notes & {"block_size", "gpu", "max_model_len"}
