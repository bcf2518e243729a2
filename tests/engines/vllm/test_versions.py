"""Rules that changed between versions, and versions that were not looked at."""

from __future__ import annotations

import pytest

from kvplan.engines.vllm.facts.versions import VERSIONS, rules_of
from kvplan.errors import UsageError
from kvplan.spec.states import FullAttention, SlidingAttention
from tests.engines.vllm.models import GEMMA_3_27B, GIB, LLAMA, QWEN3_NEXT, fit, model, size


def test_known_versions_newest_first() -> None:
    """0.32 plans like 0.33."""
    assert VERSIONS[0] == "0.33.0"
    old, new = (size(GEMMA_3_27B, 131072, version=version) for version in ("0.32.0", "0.33.0"))
    assert old.bytes == new.bytes


def test_older_versions_charge_windows_one_batch() -> None:
    """0.19: ceil((1,023 + 8,192) / 16) + 1 = 577 blocks in each of 6 groups."""
    figures = size(GEMMA_3_27B, 131072, version="0.19.0").figures
    assert figures["request_blocks"] == 6 * 577 + 8192


def test_older_versions_count_tokens_by_groups() -> None:
    """0.19: blocks // groups x the smallest block size."""
    figures = fit(GEMMA_3_27B, 40 * GIB, 131072, version="0.19.0").figures
    assert figures["num_blocks"] == 32768
    assert figures["capacity_tokens"] == 32768 // 7 * 16


def test_older_versions_do_not_keep_a_null_block_back() -> None:
    """256 blocks of 2 MiB fit into exactly 512 MiB in 0.19, and not in 0.33."""
    assert fit(LLAMA, 256 * 2**21, 4096, version="0.19.0").refusal is None
    assert fit(LLAMA, 256 * 2**21, 4096).refusal is not None
    assert fit(LLAMA, 257 * 2**21, 4096).refusal is None


def test_older_versions_take_no_block_for_checkpoints() -> None:
    """With cached prefixes 0.32 holds two states of a gated delta net, and 0.33 a third one."""
    for version, states in (("0.33.0", 3), ("0.32.0", 2)):
        assert _state_blocks(version, enable_prefix_caching=True) == {states}


def test_older_versions_cache_no_prefixes_of_hybrids_unless_told() -> None:
    """0.27: one state a group, two with --enable-prefix-caching; from 0.28 on two without it."""
    assert _state_blocks("0.27.0") == {1}
    assert _state_blocks("0.27.0", enable_prefix_caching=True) == {2}
    assert _state_blocks("0.28.0") == {2}


def _state_blocks(version: str, **options: object) -> set[int]:
    """Blocks of one request in each group of states."""
    groups = size(QWEN3_NEXT, 32768, version=version, **options).figures["groups"]
    return {g["request_blocks"] for g in groups if g["kind"] == "state"}


def test_newer_versions_widen_groups_of_nearly_equal_kinds() -> None:
    """13 full and 12 sliding layers: two groups 13 wide; in 0.11 three groups 12 wide."""
    spec = model(
        ("full", "sliding") * 12 + ("full",),
        {
            "full": (FullAttention(kv_heads=8, head_dim=64),),
            "sliding": (SlidingAttention(kv_heads=8, head_dim=64, window=128),),
        },
        heads=64,
    )
    widths = {
        version: [g["layers"] for g in size(spec, 8192, version=version).figures["groups"]]
        for version in ("0.33.0", "0.11.2")
    }
    assert widths == {"0.33.0": [13, 12], "0.11.2": [7, 6, 12]}


def test_a_version_not_looked_at_gets_the_nearest_and_says_so() -> None:
    """0.21.0 lies between 0.20.2 and 0.22.0, and one change lies there too."""
    rules, note = rules_of("0.21.0")
    assert rules.version == "0.20.2"
    between = "its rules lie between 0.20.2 and 0.22.0; what may differ: a step holds"
    assert note is not None
    assert note.startswith(f"vllm 0.21.0 was not looked at; {between}")
    for layout in (size(LLAMA, 4096, version="9.9.9"), fit(LLAMA, GIB, 4096, version="9.9.9")):
        assert layout.version == "0.33.0"
        (notice,) = layout.notices
        message = "vllm 9.9.9 is not known to kvplan; rules of 0.33.0 were used"
        assert notice == ("engine-version", message)
    assert size(LLAMA, 4096).notices == ()


def test_a_pool_has_a_null_block_since_its_block_pool() -> None:
    """Since 0.8.3 (v1/core/block_pool.py); 4,096 tokens of 2 MiB a block of 16 are 256 blocks."""
    for version in ("0.33.0", "0.8.3"):
        assert size(LLAMA, 4096, version=version).bytes == 257 * 2**21
    for version in ("0.8.1", "0.7.3", "0.2.4"):
        layout = size(LLAMA, 4096, version=version)
        assert layout.bytes == 256 * 2**21
        assert not any("null block" in reason for reason in layout.reasons)


def test_the_oldest_release_started_with_one_block() -> None:
    """0.2.4 asked for any block at all (engine/llm_engine.py), 0.4.0 for the longest request."""
    assert fit(LLAMA, 3 * 2**21, 4096, version="0.2.4").figures["num_blocks"] == 3
    assert fit(LLAMA, 3 * 2**21, 4096, version="0.4.0").refusal is not None
    assert fit(LLAMA, 2**20, 4096, version="0.2.4").refusal is not None


@pytest.mark.parametrize(
    "text",
    [
        "latest",
        "",
        "0.33.0.0.0.0",
        "\u0660.\u0663",
        "0.33.0-x",
        "0.33.0.",
        "0.33.0+",
        "9" * 5000 + ".1",
    ],
)
def test_a_word_is_no_version(text: str) -> None:
    """Anything that is not a version is an error."""
    with pytest.raises(UsageError, match="not a version"):
        rules_of(text)


@pytest.mark.parametrize(
    "text",
    ["0.33.0rc1", "v0.33", "0.33.0.post1", "0.33.0rc2.dev63+g06bfb7a7d.d2025", "0.33.0+cu129"],
)
def test_what_a_build_appends_is_passed_over(text: str) -> None:
    """As `vllm --version` prints it."""
    assert rules_of(text)[0].version == "0.33.0"
