"""The engine against llama.cpp b11434: 851 contexts of 79 models, cache by cache, to the byte."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvplan.engines.layout import CacheLayout
from kvplan.engines.llamacpp.engine import LlamacppEngine
from kvplan.engines.request import Request
from kvplan.importers.gguf import import_gguf
from kvplan.spec.model import ModelSpec
from tests.importers.gguf_writer import write_truth_model

RECORDED = Path(__file__).parents[2] / "data" / "llamacpp" / "recorded.json"
FLASH = {-1: "auto", 0: "off", 1: "on"}


@cache
def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelSpec]:
    """Every model's metadata, written as a GGUF file and read back."""
    folder = tmp_path_factory.mktemp("gguf")
    return {
        name: import_gguf(
            write_truth_model(folder / f"{name}.gguf", model["arch"], model["gguf"])
        ).spec
        for name, model in recorded()["models"].items()
    }


def laid_out(spec: ModelSpec, asked: dict[str, Any]) -> CacheLayout:
    """The layout of a recorded call; what it does not name was left at the program's default."""
    options = {
        "batch_size": str(asked.get("n_batch", 2048)),
        "ubatch_size": str(asked.get("n_ubatch", 512)),
        "kv_unified": str(asked.get("kv_unified", False)).lower(),
        "swa_full": str(asked.get("swa_full", False)).lower(),
        "flash_attn": FLASH[asked.get("fa", -1)],
    }
    request = Request(
        ctx=asked["n_ctx"],
        batch=asked.get("n_seq_max", 1),
        with_draft=asked.get("mtp", False),
        options=options,
    )
    return LlamacppEngine().layout(spec, request)


def test_every_recorded_context(specs: dict[str, ModelSpec]) -> None:
    """Cells, streams, layers and bytes of each cache; tensors and caches have the same sum."""
    wrong = []
    for case in recorded()["cases"]:
        layout = laid_out(specs[case["m"]], case["p"])
        assert layout.refusal is None
        figures = layout.extra
        draft = bool(case["p"].get("mtp"))
        found = {
            cache.name.removeprefix("draft_"): cache
            for cache in figures.caches
            if cache.name.startswith("draft_") is draft
        }
        assert layout.bytes == sum(cache.bytes for cache in figures.caches)
        for name, truth in case["c"].items():
            k, v = next((truth[a], truth[b]) for a, b in _SIDES if a in truth)
            if k + v == 0:
                continue
            cache = found.pop(name)
            if (cache.k_bytes, cache.v_bytes) != (k, v):
                wrong.append((case["m"], case["p"], name))
            if "kv" not in truth and cache.cells != truth["cells"]:
                wrong.append((case["m"], case["p"], name, "cells"))
            if "r" not in truth and cache.streams != truth["streams"]:
                wrong.append((case["m"], case["p"], name, "streams"))
        if found:
            wrong.append((case["m"], case["p"], "more than there are", sorted(found)))

    assert not wrong


_SIDES = (("k", "v"), ("r", "s"), ("kv", "score"))


def test_packed_formats_and_states_per_slot(specs: dict[str, ModelSpec]) -> None:
    """Qwen3.6 27B: attention rows are packed, states stay float32 whatever the format."""
    name = "nvidia--Qwen3.6-27B-NVFP4"
    plain = LlamacppEngine().layout(specs[name], Request(ctx=8192, batch=4))
    packed = LlamacppEngine().layout(specs[name], Request(ctx=8192, batch=4, dtype="q8_0"))
    states = {c.name: c.bytes for c in plain.extra.caches}["rs"]

    assert {c.name: c.bytes for c in packed.extra.caches}["rs"] == states
    # 32 elements are 64 bytes in f16 and 34 in q8_0
    assert (plain.bytes - states) * 34 == (packed.bytes - states) * 64
