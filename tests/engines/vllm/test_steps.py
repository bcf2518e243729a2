"""Each step of vLLM's pipeline on small models with odd windows, odd lengths and exact ratios.

Most recorded starts have lengths, windows and steps that are multiples of 16, which hides a rule
that is off by one. Here every expected figure is written out. A page of 16 tokens of 2 KV heads of
64 in bfloat16 is 16 x 2 x (64 + 64) x 2 = 8,192 bytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.vllm.backends.backend import Backend
from kvplan.engines.vllm.facts.dtype import CacheDType
from kvplan.engines.vllm.layers.slots import ATTENTION, Slot
from kvplan.engines.vllm.pool.kv_layout import resolve
from kvplan.spec.states import FullAttention
from tests.engines.vllm.steps import GIB, Plan, spec_of

PAGE = 8192
# One step of 33 tokens; with asynchronous scheduling 66 are in flight.
STEP = ("--ctx", "1000", "--max-num-batched-tokens", "33")
FULL = {"kind": "full", "kv_heads": 2, "head_dim": 64}
WINDOW = {"kind": "sliding", "window": 95, "kv_heads": 2, "head_dim": 64}
DELTA_NET = {
    "kind": "gated_delta_net", "k_heads": 2, "k_head_dim": 64, "v_heads": 2, "v_head_dim": 64,
    "conv_kernel": 4,
}  # fmt: skip


def layers(full: int = 0, window: int = 0, state: int = 0, **more: Any) -> dict[str, Any]:
    """A spec with that many layers of each kind, full ones first."""
    counts = {"full": full, "window": window, "state": state}
    kinds = {"full": FULL, "window": WINDOW, "state": DELTA_NET}
    used = {name: kinds[name] for name, count in counts.items() if count}
    listed = [name for name, count in counts.items() for _ in range(count)]
    return spec_of(heads=4, kinds=used, layers=listed, **more)


def groups_of(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    """(kind, layers, blocks of a request) of each group."""
    return [
        (group["kind"], group["layers"], group["request_blocks"])
        for group in answer["engine"]["groups"]
    ]


def test_a_window_holds_one_token_less_than_its_size(plan: Plan) -> None:
    """94 + 66 = 160 tokens are 10 blocks, and one because a window may start inside a block."""
    answer = plan(layers(window=3), words=STEP)

    assert answer["engine"]["request_blocks"] == 10 + 1


@pytest.mark.parametrize(("pp", "in_flight"), [(1, 33), (2, 66)], ids=["one stage", "two stages"])
def test_batches_in_flight_without_asynchronous_scheduling(
    plan: Plan, pp: int, in_flight: int
) -> None:
    """One per pipeline stage: 94 + 33 = 127 tokens are 8 blocks, 94 + 66 are 10; one more each."""
    answer = plan(layers(window=4), words=(*STEP, "--pp", str(pp)), args="--no-async-scheduling")

    assert answer["engine"]["in_flight_tokens"] == in_flight
    assert answer["engine"]["request_blocks"] == {33: 9, 66: 11}[in_flight]


def test_batched_tokens_are_at_most_all_sequences_whole(plan: Plan) -> None:
    """7 sequences of 1,001 tokens are 7,007, which is below the default of 8,192."""
    answer = plan(layers(window=3), words=("--ctx", "1001", "--max-num-seqs", "7"))

    assert answer["engine"]["max_num_batched_tokens"] == 7 * 1001


@pytest.mark.parametrize(
    ("version", "full", "window", "expected"),
    [
        # 3 is exactly 1.5 x 2, so not below it: groups of 2. 4 is below 4.5: one group of 4.
        ("0.33.0", 2, 3, [("full", 2, 63), ("sliding", 2, 11), ("sliding", 1, 11)]),
        ("0.33.0", 3, 4, [("full", 3, 63), ("sliding", 4, 11)]),
        # 5 is exactly 1.25 x 4, the ratio up to 0.17.1. One batch is in flight there:
        # 94 + 33 = 127 tokens are 8 blocks, and one more.
        ("0.18.0", 4, 5, [("full", 4, 63), ("sliding", 5, 9)]),
        ("0.17.1", 4, 5, [("full", 4, 63), ("sliding", 3, 9), ("sliding", 2, 9)]),
    ],
)
def test_groups_are_as_wide_as_a_largest_bucket_that_is_close(
    plan: Plan, version: str, full: int, window: int, expected: Any
) -> None:
    """The width is the largest bucket's only below the ratio; 1,000 tokens are 63 blocks."""
    answer = plan(layers(full=full, window=window), words=STEP, version=version)

    assert groups_of(answer) == expected


def test_a_padded_page_is_the_distance_between_blocks(plan: Plan) -> None:
    """A state of 3 x 384 x 2 + 2 x 64 x 64 x 2 = 18,688 bytes takes an attention page of 48 tokens.

    48 x 512 = 24,576 bytes; the group of 4 states is wider than that of 3 attention layers.
    """
    answer = plan(layers(full=3, state=4), words=STEP)

    assert answer["engine"]["block_size"] == 48
    assert answer["engine"]["bytes_per_block"] == [4 * 24_576]


def test_capacity_is_floating_point_as_vllm_computes_it(plan: Plan) -> None:
    """513 blocks / 63 x 1,001 tokens is 8,151 exactly, and one less in floating point."""
    assert 513 * 1001 == 63 * 8151
    answer = plan(
        spec_of(heads=4, layers=1, attention=FULL),
        513 * PAGE,
        words=("--ctx", "1001"),
    )

    assert answer["engine"]["num_blocks"] == 513
    assert answer["engine"]["request_blocks"] == 63
    assert answer["engine"]["capacity_tokens"] == 8150


def test_tokens_of_the_log_line_count_every_context_rank(plan: Plan) -> None:
    """0.20 prints blocks // groups x block size x dcp; a layer has 16 x 128 x 2 bytes a rank."""
    answer = plan(
        spec_of(heads=8, layers=2, attention=FULL),
        version="0.20.0",
        words=("--ctx", "1000", "--tp", "4", "--dcp", "2"),
    )

    blocks = GIB // (2 * 4096)
    assert answer["engine"]["num_blocks"] == blocks
    assert answer["engine"]["capacity_tokens"] == blocks * 16 * 2


def test_context_ranks_must_divide_the_query_heads_of_a_kv_head(plan: Plan) -> None:
    """12 query heads over 4 KV heads are 3 each: 2 context ranks cannot share them, 3 can."""
    spec = spec_of(heads=12, layers=2, attention={**FULL, "kv_heads": 4})
    words = ("--ctx", "1000", "--tp", "12", "--dcp")

    assert plan(spec, words=(*words, "2"))["refusal"]["code"] == "dcp-not-possible"
    # ceil(1,000 / 3) = 334 tokens a rank are 21 blocks.
    assert plan(spec, words=(*words, "3"))["engine"]["request_blocks"] == 21


def test_states_share_the_page_of_skipped_layers(plan: Plan) -> None:
    """A small state is padded to the page that unquantised windows ask for.

    fp8 rows have 256 bytes, so a state of 3 x 96 x 2 + 32 x 32 x 2 = 2,624 bytes fits a page of
    16 tokens, 4,096 bytes. Windows in bfloat16 take 16 x 512 = 8,192, so the block grows to 32.
    """
    state = {**DELTA_NET, "k_heads": 1, "v_heads": 1, "k_head_dim": 32, "v_head_dim": 32}
    kinds = {"full": FULL, "window": WINDOW, "state": state}
    answer = plan(
        spec_of(heads=4, kinds=kinds, layers=list(kinds)),
        words=(*STEP, "--dtype", "fp8"),
        args="VLLM_KV_CACHE_LAYOUT=BLHNC --kv-cache-dtype-skip-layers sliding_window",
    )

    assert answer["engine"]["block_size"] == 32
    assert [group["page_bytes"] for group in answer["engine"]["groups"]] == [8192, 8192, 8192]


@pytest.mark.parametrize(("tp", "page"), [(1, 5056), (2, 2624), (4, 1408)])
def test_one_mamba_group_is_copied_to_every_rank(plan: Plan, tp: int, page: int) -> None:
    """Columns 3 x (128 + 2 x tp x 16) / tp, a matrix of 4 / tp x 32 x 16; 2 bytes each.

    tp 1: 3 x 160 x 2 + 4,096; tp 2: 3 x 96 x 2 + 2,048; tp 4: 3 x 64 x 2 + 1,024.
    """
    state = {"kind": "mamba2", "num_heads": 4, "head_dim": 32, "state_size": 16, "n_groups": 1,
             "conv_kernel": 4}  # fmt: skip
    answer = plan(
        spec_of(heads=4, layers=2, attention=state, model_type="mamba2"),
        words=("--ctx", "1000", "--tp", str(tp)),
    )

    assert answer["engine"]["page_bytes"] == page


def test_a_packed_row_is_rounded_to_an_even_size(plan: Plan) -> None:
    """3-bit keys of 72: 27 + 2; 4-bit values: 36 + 4; 69 bytes are stored in 70.

    Two of six layers are packed: the first and last two keep 32 x 2 x 144 x 2 = 18,432 bytes.
    """
    answer = plan(
        spec_of(heads=4, layers=6, attention={**FULL, "head_dim": 72}),
        words=("--ctx", "1000", "--dtype", "turboquant_k3v4_nc"),
    )

    assert answer["engine"]["block_size"] == 32
    assert answer["engine"]["bytes_per_block"] == [4 * 18_432 + 2 * 32 * 2 * 70]


@pytest.mark.parametrize(("version", "size"), [("0.20.0", 32), ("0.19.0", 64)])
def test_latents_beside_states_come_in_blocks_of_64_up_to_0_19(
    plan: Plan, version: str, size: int
) -> None:
    """A float32 KDA state of 2 x 64 x 64 x 4 + 3 x 384 x 2 = 35,072 bytes, rows of 576 x 2.

    35,072 / 1,152 is 30.4 tokens: two kernel blocks of 16, or one of 64.
    """
    latent = {"kind": "latent", "kv_lora_rank": 512, "qk_rope_head_dim": 64,
              "qk_nope_head_dim": 128, "v_head_dim": 128, "heads": 2}  # fmt: skip
    state = {"kind": "kda", "num_heads": 2, "head_dim": 64, "conv_kernel": 4}
    answer = plan(
        spec_of(
            heads=4, kinds={"latent": latent, "state": state}, model_type="kimi_linear",
            layers=["latent", "state"],
        ),
        words=STEP,
        version=version,
    )  # fmt: skip

    assert answer["engine"]["block_size"] == size


@pytest.mark.parametrize(
    ("modules", "tokens", "blocks"), [(1, 4, 11), (2, 1, 11), (2, 2, 12), (2, 17, 12), (2, 18, 13)]
)
def test_several_draft_modules_keep_tokens_below_the_window(
    plan: Plan, modules: int, tokens: int, blocks: int
) -> None:
    """94 + (tokens - 1) + 66, where at least two modules draft; one block more."""
    spec = layers(full=2, window=2, draft_layers=["window"] * modules)
    answer = plan(
        spec,
        words=STEP,
        args=f'--speculative-config \'{{"method":"mtp","num_speculative_tokens":{tokens}}}\'',
    )

    assert ("sliding", 2, blocks) in groups_of(answer)


def test_backends_that_disagree_vote_for_a_layout() -> None:
    """Two of three put BLHNC first; without a vote the order of the list would take LBHNC."""
    first, second = ("BLHNC", "LBHNC"), ("LBHNC", "BLHNC")
    wishes = {"one": first, "two": second, "three": (*first, "BLNHC")}
    slots = [
        Slot(
            role=ATTENTION,
            state=FullAttention(kv_heads=2, head_dim=64),
            dtype=CacheDType("auto", "bfloat16"),
            backend=Backend(name=name, layouts=lambda query, wish=wish: wish),
            query=object(),  # type: ignore[arg-type]  # the stand-ins do not look at it
        )
        for name, wish in wishes.items()
    ]

    assert resolve(slots, [], None) == "BLHNC"
