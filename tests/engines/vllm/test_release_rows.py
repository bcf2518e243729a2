"""Every row of the table of releases is held by a test: without the row, something differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.engines.kit.versions import Change, History
from kvplan.engines.vllm.facts import versions
from kvplan.engines.vllm.facts.versions import CHANGES, HISTORY
from kvplan.spec.recurrent import Mamba2
from kvplan.spec.states import FullAttention, LatentAttention, SlidingAttention
from tests.engines.vllm.models import GEMMA_3_27B, GIB, LLAMA, QWEN3_NEXT, fit, model, size
from tests.engines.vllm.releases import Case, differences, recorded


def _without(row: Change) -> History[versions.Rules]:
    return replace(HISTORY, changes=tuple(other for other in CHANGES if other is not row))


def _likely(row: Change) -> list[Case]:
    """Recorded cases of releases from this row on, those just behind it first."""
    since = HISTORY.number(row.since)
    cases = [case for case in recorded()[1] if HISTORY.number(case.release) >= since]
    return sorted(cases, key=lambda case: HISTORY.number(case.release))


# Rows that no recorded start can tell, and the test that holds each.
BY_HAND = {
    "0.4.0": "test_0_4_0_asks_for_one_request",
    "0.8.3": "test_0_8_3_sets_a_null_block_aside",
    "0.8.4": "test_0_8_4_goes_by_memory",
    "0.24.0": "test_0_24_0_pads_pages_that_do_not_divide",
    "0.33.0": "test_0_33_0_gives_gated_delta_nets_a_block",
    "0.31.0": "test_0_31_0_has_blocks_of_64_for_wide_fp8",
}


@pytest.mark.parametrize("row", CHANGES, ids=[f"{r.since}-{min(r.rules)}" for r in CHANGES])
def test_without_a_row_a_recorded_start_differs(
    row: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Take one row out, and some recorded start of a release behind it is not met any more."""
    if row.since in BY_HAND:
        assert BY_HAND[row.since] in globals()
        return
    monkeypatch.setattr(versions, "HISTORY", _without(row))
    assert any(next(differences(case), None) is not None for case in _likely(row))


def test_0_4_0_asks_for_one_request() -> None:
    """0.2.4 starts with one block of 2 MiB; 0.4.0 wants the 256 of 4,096 tokens."""
    assert fit(LLAMA, 2 << 21, 4096, version="0.2.4").refusal is None
    assert fit(LLAMA, 2 << 21, 4096, version="0.4.0").refusal is not None
    assert fit(LLAMA, 256 << 21, 4096, version="0.4.0").refusal is None


def test_0_8_3_sets_a_null_block_aside() -> None:
    """256 blocks of 2 MiB for 4,096 tokens, and one more."""
    assert size(LLAMA, 4096, version="0.8.2").bytes == 256 << 21
    assert size(LLAMA, 4096, version="0.8.3").bytes == 257 << 21


def test_0_8_4_goes_by_memory() -> None:
    """A B200 is no H100 by name, and has 70 GiB: 2,048 batched tokens before, 8,192 since."""
    for version, tokens in (("0.8.3", 2048), ("0.8.4", 8192)):
        figures = fit(GEMMA_3_27B, 100 * GIB, 32768, version=version, gpu="b200").figures
        assert figures["max_num_batched_tokens"] == tokens


def test_0_31_0_has_blocks_of_64_for_wide_fp8() -> None:
    """Heads of 512 in fp8 on Hopper."""
    spec = model(
        ("full",) * 4,
        {"full": (FullAttention(kv_heads=1, head_dim=512),)},
        heads=8,
        architecture="Gemma4ForCausalLM",
        model_type="gemma4_text",
    )
    for version, tokens in (("0.30.0", 16), ("0.31.0", 64)):
        figures = fit(spec, GIB, 4096, version=version, kv_cache_dtype="fp8").figures
        assert figures["block_size"] == tokens


def test_0_24_0_pads_pages_that_do_not_divide() -> None:
    """Pages of 12,288 and 8,192 bytes: padded to the larger since 0.24, refused before."""
    spec = model(
        ("full", "sliding") * 4,
        {
            "full": (FullAttention(kv_heads=3, head_dim=64),),
            "sliding": (SlidingAttention(kv_heads=2, head_dim=64, window=128),),
        },
        heads=6,
    )
    old = fit(spec, GIB, 4096, version="0.23.0")
    assert old.refusal is not None
    assert old.refusal.code == "page-sizes-differ"
    assert fit(spec, GIB, 4096, version="0.24.0").figures["bytes_per_block"] == [4 * 12288]


def test_0_33_0_gives_gated_delta_nets_a_block() -> None:
    """Two states of a group with cached prefixes, and since 0.33 a third for checkpoints."""
    for version, states in (("0.32.0", 2), ("0.33.0", 3)):
        figures = fit(QWEN3_NEXT, 40 * GIB, 32768, version=version).figures
        found = {g["request_blocks"] for g in figures["groups"] if g["kind"] == "state"}
        assert found == {states}


def test_latents_before_0_7_1_were_padded_heads() -> None:
    """16 heads a rank x 256 elements x K and V x 2 bytes x 60 layers = 983,040 bytes a token."""
    spec = model(
        ("mla",) * 60,
        {"mla": (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128),)},
        heads=128,
        architecture="DeepseekV2ForCausalLM",
        model_type="deepseek_v2",
    )
    old = size(spec, 16000, version="0.6.6.post1", tp=8)
    assert old.figures["bytes_per_block"] == [16 * 983_040]
    new = size(spec, 16000, version="0.7.1", tp=8)
    assert new.figures["bytes_per_block"] == [16 * 60 * 576 * 2]


def test_states_of_scans_by_release() -> None:
    """Mamba 2 beside attention with cached prefixes: off, per block, at boundaries."""
    state = Mamba2(conv_kernel=4, num_heads=64, head_dim=64, state_size=128, n_groups=1)
    spec = model(
        ("state", "full") * 4,
        {"state": (state,), "full": (FullAttention(kv_heads=8, head_dim=64),)},
        heads=32,
        architecture="BambaForCausalLM",
        model_type="bamba",
    )
    states = {}
    for version in ("0.11.0", "0.13.0", "0.23.0"):
        groups = size(spec, 65536, version=version, enable_prefix_caching=True).figures["groups"]
        states[version] = next(g["request_blocks"] for g in groups if g["kind"] == "state")
    # A state of 1,057,280 bytes needs 517 of the 2,048 bytes a token; in chunks of 256 that is 768.
    assert states == {"0.11.0": 1, "0.13.0": -(-65536 // 768), "0.23.0": -(-65536 // 768)}
