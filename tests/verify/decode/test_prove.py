"""The whole proof on small models: passes where storage is right, and says what it leaves out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvplan.checks import Check, agreement
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.spec.recurrent import GenericRecurrent
from kvplan.spec.states import CompressedLatent, FullAttention, Indexer, LatentAttention
from kvplan.verify.decode import prove

from .small_specs import GATED, GQA, MLA, MODELS, model

torch = pytest.importorskip("torch")


def failures(checks: list[Check]) -> list[str]:
    return [f"{check.name}: {check.measured} {check.why}" for check in checks if not check.ok]


def named(checks: list[Check]) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert len(found) == len(checks), "names tell checks apart"
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_layer(name: str) -> None:
    """Right storage passes every check, and every damage to it is seen."""
    checks = prove(MODELS[name], Request(ctx=64))

    assert [check for check in checks if check.ok is False] == []
    left_open = {check.name.partition("[")[0] for check in checks if check.ok is None}
    assert left_open <= {"attention_operations"}  # of layers that score nothing
    found = named(checks)
    assert {"bytes_per_token_slope", "cached_equals_recomputed", "negative_control"} <= set(found)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_per_token_head", "int8_per_token_head", "q8_0"])
@pytest.mark.parametrize("name", ["gqa", "mla"])
def test_quantised_caches(name: str, dtype: str) -> None:
    """Codes and scales come back from contiguous and from paged storage."""
    checks = prove(MODELS[name], Request(ctx=64, dtype=dtype))

    assert failures(checks) == []
    assert any(name.startswith("rounding_of_format") for name in named(checks))


def test_k_and_v_in_different_formats() -> None:
    """Each is written and read in its own: 2 heads x 8 x (2 B + 1 B) = 48 B per token."""
    checks = named(prove(MODELS["gqa"], Request(ctx=64, dtype_v="int8")))

    assert checks["bytes_per_token_slope"].measured == 48
    assert checks["cached_equals_recomputed[paged, bfloat16/int8]"].ok


def test_one_of_k_and_v_in_float32() -> None:
    """What does not round has no rounding to check."""
    checks = prove(MODELS["gqa"], Request(ctx=64, dtype_k="fp32", dtype_v="int8"))

    assert failures(checks) == []


def test_tolerances_and_controls_are_far_apart() -> None:
    """float32 agrees to 1e-4 of the logits' spread; a damaged block is off by a tenth at least."""
    checks = named(prove(MODELS["gqa"], Request(ctx=64)))

    equal, control = checks["cached_equals_recomputed"], checks["negative_control"]
    assert equal.tolerance == 1e-4
    assert equal.measured <= 1e-4
    assert control.measured > 0.1


def test_one_seed_gives_one_result() -> None:
    """The same seed gives the same figures, another seed others."""
    figures = [
        [check.measured for check in prove(MODELS["gqa"], Request(ctx=64), seed=seed)]
        for seed in (0, 0, 1)
    ]

    assert figures[0] == figures[1]
    assert figures[0] != figures[2]


def test_settings_of_torch_are_left_alone() -> None:
    """Neither the global generator nor the number of threads changes."""
    state, threads = torch.get_rng_state(), torch.get_num_threads()

    prove(MODELS["mqa"], Request(ctx=64))

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_any_block_size(block_size: int) -> None:
    """Blocks of one token, of an odd number, and longer than the run."""
    checks = prove(MODELS["sliding and full"], Request(ctx=64), block_size=block_size)

    assert failures(checks) == []


@pytest.mark.parametrize(
    ("state", "kind", "reason"),
    [
        (Indexer(head_dim=8, ratio=4), "indexer", "pooled"),
        (CompressedLatent(head_dim=8, window=4, ratio=2), "compressed_latent", "pooled"),
        (GenericRecurrent(shape=(2, 3)), "recurrent", "recurrence"),
        (LatentAttention(kv_lora_rank=8, qk_rope_head_dim=4), "latent", "qk_nope_head_dim"),
    ],
)
def test_what_is_not_proven_is_said(state: object, kind: str, reason: str) -> None:
    """A kind that is not run is an undecided check beside the others, never a passed one."""
    checks = named(prove(model((MLA, state)), Request(ctx=64)))

    left_out = checks.pop(f"decode_proof[{kind}]")
    assert left_out.ok is None
    assert reason in left_out.why
    assert all(check.ok for check in checks.values())


def test_nothing_can_be_run() -> None:
    """A model of which nothing can be run does not count as agreement."""
    checks = prove(model(Indexer(head_dim=8)), Request(ctx=64))

    assert [check.ok for check in checks] == [None]
    assert not agreement(checks)


def test_a_format_that_is_not_written() -> None:
    """q5_1 is not spelt out: float32 is proven, and the rest is said to be open."""
    checks = named(prove(MODELS["gqa"], Request(ctx=64, dtype="q5_1")))

    assert checks.pop("decode_proof[q5_1]").ok is None
    assert all(check.ok for check in checks.values())
    assert "cached_equals_recomputed[paged, float32]" in checks


def test_unknown_heads() -> None:
    """Query heads are never made up."""
    checks = named(prove(model(GQA, heads=None), Request(ctx=64)))

    assert "query heads" in checks["decode_proof[full]"].why


def test_a_recurrent_matrix_in_bfloat16() -> None:
    """A state that is rounded after each token is compared with the same walk from the start."""
    state = GATED.replaced(dtype="bfloat16")

    checks = prove(model(state, GQA), Request(ctx=64))

    assert failures(checks) == []


def test_a_hostile_spec_is_not_run() -> None:
    """2^40 heads are refused, not allocated."""
    huge = FullAttention(kv_heads=2**40, head_dim=128, heads=2**40)

    (check,) = prove(model(huge), Request(ctx=64))

    assert "too large" in check.why


def test_a_block_without_tokens() -> None:
    """A block size of 0 is refused."""
    with pytest.raises(UsageError, match="block of 0 tokens"):
        prove(MODELS["gqa"], Request(ctx=64), block_size=0)


def test_progress_is_told() -> None:
    """Each storage is announced, with how many steps there are."""
    told: list[tuple[str, int, int]] = []

    prove(MODELS["gqa"], Request(ctx=64), progress=lambda *step: told.append(step))

    assert told == [
        ("storage", 0, 6),
        ("contiguous, float32", 1, 6),
        ("paged, float32", 2, 6),
        ("contiguous, bfloat16", 3, 6),
        ("paged, bfloat16", 4, 6),
        ("operations", 5, 6),
    ]


def test_torch_comes_with_the_proof_only() -> None:
    """Importing the room does not import torch."""
    code = "import sys, kvplan.verify.decode; print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
