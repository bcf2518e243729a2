"""A cache that is wrong in one way is caught: each test breaks one thing, and the proof fails."""

from __future__ import annotations

import pytest

from kvplan.checks import Check
from kvplan.engines.request import Request
from kvplan.spec.states import SlidingAttention
from kvplan.verify.decode import prove

from .small_specs import MODELS

torch = pytest.importorskip("torch")

from kvplan.verify.decode import (  # noqa: E402 - they import torch
    damage,
    kept,
    layouts,
    linear,
    memory,
    recurrent,
    storage,
)
from kvplan.verify.decode.formats import Format  # noqa: E402
from kvplan.verify.decode.placement import Placement  # noqa: E402


def failed(name: str, dtype: str = "auto") -> set[str]:
    """Names of the failed checks, without what stands in brackets."""
    checks: list[Check] = prove(MODELS[name], Request(ctx=64, dtype=dtype))
    return {check.name.partition("[")[0] for check in checks if check.ok is False}


def test_a_wrong_block_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences that share a block overwrite each other."""
    right = layouts.in_blocks

    def shared(*args: object) -> Placement:
        placement = right(*args)
        placement.table[1, 0] = placement.table[0, 0]
        return placement

    monkeypatch.setattr(layouts, "in_blocks", shared)

    assert "cached_equals_recomputed" in failed("gqa")


def test_blocks_read_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that come back at other positions than they were written to."""
    right = storage.Rows.read

    def reversed_(self: storage.Rows, first: int, last: int) -> tuple:
        return tuple(row.flip(1) for row in right(self, first, last))

    monkeypatch.setattr(storage.Rows, "read", reversed_)

    assert "cached_equals_recomputed" in failed("sliding")


def test_a_stale_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that stops taking new tokens when it is full serves old ones."""
    right = storage.Rows.write

    def stale(self: storage.Rows, rows: object, first: int) -> None:
        if self.placement.span is None or first < self.placement.span:
            right(self, rows, first)

    monkeypatch.setattr(storage.Rows, "write", stale)

    assert failed("sliding and full") >= {"cached_equals_recomputed"}


def test_a_window_too_short_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage of window - 1 entries is cheaper by one entry and loses one token."""
    right = kept.span_of

    def short(state: object) -> int | None:
        span = right(state)
        return span - 1 if span and isinstance(state, SlidingAttention) else span

    monkeypatch.setattr(layouts, "span_of", short)

    assert failed("sliding") >= {"cached_equals_recomputed", "bytes_per_token_slope"}


def test_a_cache_that_keeps_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage of every token under a window decodes rightly, and takes too many bytes."""
    monkeypatch.setattr(layouts, "span_of", lambda state: None)

    assert failed("sliding") == {"bytes_per_token_slope"}


def test_a_vector_that_nothing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry with one head of V too many decodes rightly and is found by its bytes."""
    right = layouts.vectors_of

    def padded(*args: object) -> tuple:
        k, v = right(*args)
        return k, v._replace(heads=v.heads + 1)

    def write(self: storage.Rows, rows: tuple, first: int) -> None:
        k, v = rows
        wide = torch.cat((v, v[:, :, :1]), dim=2) if v.shape[2] < self.vectors[1].heads else v
        right_write(self, (k, wide), first)

    def read(self: storage.Rows, first: int, last: int) -> tuple:
        k, v = right_read(self, first, last)
        return k, v[:, :, :-1]

    right_write, right_read = storage.Rows.write, storage.Rows.read
    monkeypatch.setattr(storage.Rows, "write", write)
    monkeypatch.setattr(storage.Rows, "read", read)
    monkeypatch.setattr(layouts, "vectors_of", padded)

    assert "bytes_per_token_slope" in failed("mha")


def test_a_scale_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes without their own scales do not give the vectors back."""
    right = Format.decode

    def without(self: Format, stored: tuple, count: int, dim: int) -> object:
        if self.scale is not None:
            stored = (stored[0], stored[1].flip(0))
        return right(self, stored, count, dim)

    monkeypatch.setattr(Format, "decode", without)

    assert "rounding_of_format" in failed("gqa", "int8_per_token_head")


def test_a_format_that_rounds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format's own mistake cancels out between the two runs; its check sees it."""
    right = Format.encode
    monkeypatch.setattr(Format, "encode", lambda self, rows: right(self, rows.bfloat16().float()))

    found = failed("gqa", "float16")

    assert "rounding_of_format" in found


def test_a_state_that_is_not_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrent layer whose matrix starts anew at every step."""
    right = linear.carried
    monkeypatch.setattr(
        recurrent, "carried", lambda inputs, state, dtype: right(inputs, state * 0, dtype)
    )

    assert "cached_equals_recomputed" in failed("gated delta net")


def test_convolution_columns_of_the_wrong_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution that gets its columns back in another order."""
    right = memory.Cache.carried

    def flipped(self: memory.Cache, key: memory.Key) -> tuple:
        columns, *rest = right(self, key)
        return (columns.flip(1), *rest)

    monkeypatch.setattr(memory.Cache, "carried", flipped)

    assert "cached_equals_recomputed" in failed("short convolution")


def test_cross_attention_to_the_wrong_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values of the encoder that are read from the other sequence."""
    right = memory.Cache.once

    def swapped(self: memory.Cache, key: memory.Key, make: object) -> memory.Seen:
        seen = right(self, key, make)
        return seen._replace(rows=tuple(row.flip(0) for row in seen.rows))

    monkeypatch.setattr(memory.Cache, "once", swapped)

    assert "cached_equals_recomputed" in failed("cross")


def test_unwritten_storage_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unwritten slots hold NaN: the logits are no numbers, and the check says so."""
    monkeypatch.setattr(storage.Rows, "write", lambda *args: None)

    checks = prove(MODELS["gqa"], Request(ctx=64))

    (found,) = [check for check in checks if check.name == "cached_equals_recomputed"]
    assert found.ok is False
    assert found.measured == "not a number"


def test_damage_that_nothing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control that does not show is a failure: the comparison would pass whatever is stored."""
    monkeypatch.setattr(damage, "apply", lambda *args: None)

    assert failed("mqa") == {"negative_control"}
