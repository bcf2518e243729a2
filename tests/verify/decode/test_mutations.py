"""What the decode proof must not pass: each row breaks one thing, and names the check that turns.

The rows that matter most are wrong in the same way with a cache and without, so that comparing the
two cannot show them: a vector that nothing reads, a window that is read one token short, a state
that is kept in too few bits. Damage to the very piece, and the model's own facts, show them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvplan.dtypes import DTYPES
from kvplan.engines.request import Request
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import Indexer, SlidingAttention
from kvplan.verify.decode import prove

from .small_specs import CHUNK, GATED, GQA, MAMBA2, MLA, MODELS, model

torch = pytest.importorskip("torch")

from kvplan.verify.decode import (  # noqa: E402 - they import torch
    attention,
    indexer,
    kept,
    latent,
    layouts,
    memory,
    recurrent,
    rounding,
    storage,
)

Patch = pytest.MonkeyPatch
DSA = model((MLA, Indexer(head_dim=8)))
LONG_WINDOW = model(SlidingAttention(kv_heads=2, head_dim=8, window=4096), GQA)


def failed(spec: ModelSpec) -> set[str]:
    """Names of the failed checks, without what stands in brackets."""
    checks = prove(spec, Request(ctx=64))
    return {check.name.partition("[")[0] for check in checks if check.ok is False}


def v_is_never_read(patch: Patch) -> None:
    right = attention.Core.forward
    patch.setattr(
        attention.Core, "forward",
        lambda self, q, k, v, *rest: right(self, q, k, torch.ones_like(v), *rest),
    )  # fmt: skip


def k_is_never_read(patch: Patch) -> None:
    right = attention.Core.forward
    patch.setattr(
        attention.Core, "forward",
        lambda self, q, k, v, *rest: right(self, q, torch.ones_like(k), v, *rest),
    )  # fmt: skip


def rotary_key_is_zero(patch: Patch) -> None:
    right = latent.rotate
    patch.setattr(latent, "rotate", lambda rows, start: right(rows, start) * 0)


def latent_is_zero(patch: Patch) -> None:
    patch.setattr(latent, "normed", lambda rows: rows * 0)


def index_keys_are_never_read(patch: Patch) -> None:
    right = indexer.IndexScores.forward
    patch.setattr(indexer.IndexScores, "forward", lambda self, *args: right(self, *args) * 0)


def mask_one_narrower(patch: Patch) -> None:
    right = attention.visible

    def narrow(state: Any, *rest: Any) -> Any:
        if isinstance(state, SlidingAttention):
            state = state.replaced(window=state.window - 1)
        return right(state, *rest)

    patch.setattr(attention, "visible", narrow)


def mask_and_reads_one_narrower(patch: Patch) -> None:
    mask_one_narrower(patch)
    right = kept.first_visible
    for room in (kept, memory):
        patch.setattr(
            room, "first_visible",
            lambda state, at: right(state, at) + (1 if right(state, at) else 0),
        )  # fmt: skip


def mask_one_wider(patch: Patch) -> None:
    right = attention.visible

    def wide(state: Any, *rest: Any) -> Any:
        if isinstance(state, SlidingAttention):
            state = state.replaced(window=state.window + 1)
        return right(state, *rest)

    patch.setattr(attention, "visible", wide)


def chunk_ends_are_ignored(patch: Patch) -> None:
    right = attention.visible

    def through(state: Any, start: int, tokens: int, first: int, device: Any) -> Any:
        key = torch.arange(first, start + tokens)
        causal = key <= torch.arange(start, start + tokens).unsqueeze(1)
        return causal if state.kind == "chunked" else right(state, start, tokens, first, device)

    patch.setattr(attention, "visible", through)


def a_column_too_many(patch: Patch) -> None:
    """The planner counts conv_kernel columns."""
    right = RecurrentState.conv_elements.fget
    assert right is not None
    patch.setattr(
        RecurrentState, "conv_elements",
        property(lambda self: right(self) + (self.conv_channels if self.conv_kernel else 0)),
    )  # fmt: skip


def a_column_that_is_kept_and_not_read(patch: Patch) -> None:
    """Storage, planner and convolution all have conv_kernel columns; the oldest has no tap."""
    a_column_too_many(patch)
    right = kept.columns_of
    more = lambda state: (right(state)[0] + 1, right(state)[1]) if right(state) else None  # noqa: E731
    patch.setattr(kept, "columns_of", more)
    from kvplan.verify.decode import damage

    patch.setattr(damage, "columns_of", more)
    made = recurrent.Convolution.__init__

    def init(self: Any, kernel: int, channels: int, weights: Any) -> None:
        made(self, kernel, channels, weights)
        self.past = kernel
        self.taps = torch.cat((self.taps.new_zeros(1, channels), self.taps))

    patch.setattr(recurrent.Convolution, "__init__", init)


def a_matrix_in_16_bits(patch: Patch) -> None:
    """Storage alone."""
    patch.setattr(kept, "matrix_format", lambda state: "bfloat16")


def planner_and_storage_in_16_bits(patch: Patch) -> None:
    """Storage and planner agree; only the model says otherwise."""
    a_matrix_in_16_bits(patch)
    patch.setattr(RecurrentState, "matrix_dtype", lambda self: DTYPES["bfloat16"])


def the_matrix_is_not_carried(patch: Patch) -> None:
    right = recurrent.carried
    patch.setattr(
        recurrent, "carried", lambda inputs, state, dtype: right(inputs, state * 0, dtype)
    )


def a_matrix_row_too_many(patch: Patch) -> None:
    """The planner's shape is one row larger than the family's."""
    for kind in (type(GATED), type(MAMBA2)):
        right = kind.matrix_shape.fget
        assert right is not None
        patch.setattr(
            kind, "matrix_shape",
            property(lambda self, right=right: (right(self)[0] + 1, *right(self)[1:])),
        )  # fmt: skip


def a_ring_one_short(patch: Patch) -> None:
    right = kept.span_of
    patch.setattr(layouts, "span_of", lambda state: (right(state) or 1) - 1 or None)


def a_long_prompt_loses_its_past(patch: Patch) -> None:
    """What a prompt longer than the window pushes out is gone before its first token sees it."""
    right = memory.Cache.extend

    def extend(self: Any, key: Any, state: Any, rows: Any, start: int) -> Any:
        span = kept.span_of(state)
        if span is None or rows[0].shape[1] < span or not start:
            return right(self, key, state, rows, start)
        self.rows[key].write([row[:, -span:] for row in rows], start + rows[0].shape[1] - span)
        return right(self, key, state, rows, start)

    patch.setattr(memory.Cache, "extend", extend)


def unwritten_slots_are_read(patch: Patch) -> None:
    patch.setattr(storage.Rows, "write", lambda *args: None)


EQUAL, CONTROL = "cached_equals_recomputed", "negative_control"
SLOPE, STATE = "bytes_per_token_slope", "rounding_of_state"
# what is wrong, how, in which model, and the check that turns
ROWS: list[tuple[str, Callable[[Patch], None], ModelSpec, str]] = [
    ("V is never read", v_is_never_read, MODELS["gqa"], CONTROL),
    ("V is never read, MQA", v_is_never_read, MODELS["mqa"], CONTROL),
    ("K is never read", k_is_never_read, MODELS["mha"], CONTROL),
    ("V of a window is never read", v_is_never_read, MODELS["sliding"], CONTROL),
    ("V of the encoder is never read", v_is_never_read, MODELS["cross"], CONTROL),
    ("the rotary key is zero", rotary_key_is_zero, MODELS["mla"], CONTROL),
    ("the latent is zero", latent_is_zero, MODELS["mla"], CONTROL),
    ("indexer keys are never read", index_keys_are_never_read, DSA, CONTROL),
    ("a mask one narrower", mask_one_narrower, MODELS["sliding"], CONTROL),
    ("a mask one narrower, cut window", mask_one_narrower, LONG_WINDOW, CONTROL),
    ("mask and reads one narrower", mask_and_reads_one_narrower, MODELS["sliding"], CONTROL),
    ("a mask one wider", mask_one_wider, MODELS["sliding"], EQUAL),
    ("chunks that do not end", chunk_ends_are_ignored, model(CHUNK), EQUAL),
    ("a column too many is counted", a_column_too_many, MODELS["short convolution"], SLOPE),
    ("a column is kept and not read", a_column_that_is_kept_and_not_read,
     MODELS["short convolution"], CONTROL),
    ("a matrix in 16 bits", a_matrix_in_16_bits, MODELS["gated delta net"], STATE),
    ("a matrix in 16 bits, as counted", planner_and_storage_in_16_bits,
     MODELS["gated delta net"], STATE),
    ("the matrix is not carried", the_matrix_is_not_carried, MODELS["lightning"], EQUAL),
    ("a matrix row too many, delta", a_matrix_row_too_many, MODELS["gated delta net"], SLOPE),
    ("a matrix row too many, mamba2", a_matrix_row_too_many,
     MODELS["attention and mamba2 in one layer"], SLOPE),
    ("a ring one short", a_ring_one_short, MODELS["sliding"], EQUAL),
    ("a long prompt loses its past", a_long_prompt_loses_its_past, LONG_WINDOW, EQUAL),
    ("unwritten slots are read", unwritten_slots_are_read, MODELS["gqa"], EQUAL),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mutate", "spec", "check"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_every_mutation_turns_a_check(
    mutate: Callable[[Patch], None], spec: ModelSpec, check: str, monkeypatch: Patch
) -> None:
    """Nothing fails without the mutation, and the named check with it."""
    assert failed(spec) == set()

    mutate(monkeypatch)

    assert check in failed(spec)


def test_a_state_is_not_checked_with_itself() -> None:
    """The check of precision names the format that the spec names."""
    checks = prove(model(GATED, GQA), Request(ctx=64))

    (found,) = [check for check in checks if check.name == "rounding_of_state[gated_delta_net]"]
    assert "bfloat16 and float32" in found.why
    assert found.ok
    assert rounding.states_keep_precision
