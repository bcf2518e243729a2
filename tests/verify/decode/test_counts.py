"""Storage and operations against arithmetic written out here."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.engines.request import Request
from kvplan.spec.states import SlidingAttention
from kvplan.verify.decode import prove

from .small_specs import GATED, GQA, MLA, WINDOW, model

torch = pytest.importorskip("torch")

from kvplan.verify.decode.equality import length_of, new_run  # noqa: E402 - they import torch
from kvplan.verify.decode.growth import slope, stretches  # noqa: E402


def figures(spec: object, prefix: str, dtype: str = "auto") -> dict[str, object]:
    checks = prove(spec, Request(ctx=64, dtype=dtype))
    assert all(check.ok for check in checks)
    return {check.name: check.measured for check in checks if check.name.startswith(prefix)}


def test_bytes_per_token_of_heads_and_latents() -> None:
    """2 layers of 2 heads x (8 + 8) x 2 B = 128; of a latent (16 + 4) x 2 B = 80."""
    assert figures(model(GQA, GQA.replaced(heads=4)), "bytes_per_token_slope") == {
        "bytes_per_token_slope": 128,
        "bytes_per_token_slope[paged]": 128,
    }
    assert figures(model(MLA, MLA.replaced(heads=4)), "bytes_per_token_slope[p") == {
        "bytes_per_token_slope[paged]": 80
    }


def test_bytes_per_token_with_scales() -> None:
    """An 8-bit vector of 8 elements takes 8 + 4 B: 2 heads x 2 x 12 = 48 per layer."""
    found = figures(model(GQA), "bytes_per_token_slope", dtype="fp8_per_token_head")

    assert set(found.values()) == {48}


def test_below_and_above_a_window() -> None:
    """Window 20: 64 B per token of both layers up to it, of the full layer alone beyond."""
    assert figures(model(WINDOW, GQA), "bytes_per_token_slope") == {
        "bytes_per_token_slope": 128,
        "bytes_per_token_slope[20 to 84 tokens]": 64,
        "bytes_per_token_slope[paged]": 64,  # a window under two blocks: beyond it
    }


def test_a_fixed_state_does_not_grow() -> None:
    """Only the attention layer adds bytes."""
    assert figures(model(GATED, GQA), "bytes_per_token_slope")["bytes_per_token_slope"] == 64


def test_attention_operations() -> None:
    """16 tokens: 1 + 2 + ... + 16 = 136 with a cache, 1 + 4 + ... + 256 = 1496 without."""
    expected = {
        "attention_operations[with a cache]": 136,
        "attention_operations[without a cache]": 1496,
    }

    assert figures(model(GQA), "attention_operations") == expected
    assert figures(model(MLA), "attention_operations") == expected


def test_attention_operations_under_a_window() -> None:
    """Window 5: 1 + 2 + 3 + 4, then 12 times 5, is 70."""
    short = SlidingAttention(kv_heads=2, head_dim=8, window=5)

    assert figures(model(short, GQA), "attention_operations") == {
        "attention_operations[with a cache, window]": 70,
        "attention_operations[with a cache]": 136,
        "attention_operations[without a cache]": 1496,
    }


def test_no_layer_scores() -> None:
    """A model of recurrent layers alone runs no attention: nothing is counted, nothing agrees."""
    checks = prove(model(GATED), Request(ctx=64))

    assert {c.ok for c in checks if c.name.startswith("attention_operations")} == {None}


def test_slope_of_least_squares() -> None:
    """(0, 1), (1, 1), (2, 4): slope 3/2, in a fraction and not nearly."""
    assert slope([(0, 1), (1, 1), (2, 4)]) == Fraction(3, 2)


def test_stretches_between_windows() -> None:
    """Windows of 20 and 100: three stretches, the last one reaching beyond."""
    states = [WINDOW, GQA, WINDOW.replaced(window=100), WINDOW]

    assert stretches(states) == [(1, 20), (20, 100), (100, 164)]


def test_a_run_crosses_every_window_three_times() -> None:
    """Window 48: the first piece of the prompt is longer than it, and single tokens cross 144.

    150 tokens = 3 x 48 + 6; a prompt of 139 in pieces of 69 and 70, then 11 tokens.
    """
    window = WINDOW.replaced(window=48)

    assert length_of([window, GQA]) == 150
    assert new_run(150, 0, "cpu").pieces == (69, 70, *[1] * 11)
    assert length_of([WINDOW]) == 66  # 3 x 20 + 6
    assert length_of([WINDOW.replaced(window=5)]) == 46  # 8 x 5 + 6
    assert length_of([GQA]) == 45


def test_no_time_beside_states() -> None:
    """A state is walked token by token in plain steps, whose time would mislead."""
    for spec, told in ((model(GQA), True), (model(GATED, GQA), False)):
        checks = prove(spec, Request(ctx=64))
        counted = [c for c in checks if c.name.startswith("attention_operations")]
        assert all(("ms per token" in c.why) is told for c in counted)
