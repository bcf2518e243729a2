"""Every measured cache of transformers 5.24.0 and 4.57.6, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.engines.request import Request
from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.model import ModelSpec
from tests.engines.transformers.replay import (
    ENGINE,
    EVIDENCE,
    counted,
    counted_row,
    figures,
    laid_out,
    measured,
    specs,
)

GROUPS = sorted({row["group"] for row in measured()["rows"]})

# The spec has one number of channels for Mamba 1, Zamba splits it over its heads: same bytes.
SPLIT_CHANNELS = {"zamba-7b"}


def _label(row: dict[str, Any]) -> str:
    return f"{row['spec']} {row.get('options', '')} {row['batch']}x{row['prefill']}+{row['decode']}"


@pytest.mark.parametrize("group", GROUPS)
def test_bytes_and_storage_of_every_measured_row(group: str) -> None:
    """All rows of a group agree in bytes and in storage, and in refusing."""
    wrong = []
    for row in measured()["rows"]:
        if row["group"] != group:
            continue
        layout = laid_out(specs()[row["spec"]], row)
        if "error" in row:
            refusal = layout.refusal
            if refusal is None or [refusal.code, refusal.exception] != row["error"] or layout.ranks:
                wrong.append((_label(row), layout.refusal, row["error"]))
        elif layout.refusal or figures(layout) != (row["bytes"], row["storage"]):
            wrong.append((_label(row), layout.figures, (row["bytes"], row["storage"])))

    assert wrong == []


def test_tensors_of_every_measured_row() -> None:
    """Shapes and dtypes agree one by one, not only their sum."""
    wrong = []
    for row in measured()["rows"]:
        if "tensors" in row and row["spec"] not in SPLIT_CHANNELS:
            layout = laid_out(specs()[row["spec"]], row)
            if counted(layout) != counted_row(row):
                wrong.append((_label(row), counted(layout) - counted_row(row)))

    assert wrong == []


def test_paged_cache_of_every_measured_row() -> None:
    """Sectors, blocks and the tensor of continuous batching."""
    for row in measured()["paged"]:
        options = {
            "cache_implementation": "paged",
            "page_size": str(row["page_size"]),
            "num_blocks": str(row["num_blocks_requested"]),
        }
        layout = ENGINE.layout(specs()[row["spec"]], Request(ctx=1000, options=options))

        assert layout.bytes == row["cache_tensor_bytes"]
        for name in ("bytes_per_sector", "num_sectors", "num_blocks", "groups"):
            assert layout.figures[name] == row[name], (row["spec"], name)


def test_enough_rows_are_replayed() -> None:
    """The committed form holds all kinds of measured rows."""
    assert len(measured()["rows"]) >= 720
    assert len(measured()["paged"]) == 18


def _imported(name: str, model_type: str, config: dict[str, Any]) -> ModelSpec:
    data = {"model_type": model_type, **config, "torch_dtype": "bfloat16"}
    data.pop("dtype", None)
    try:
        return import_config(data, name=name.lower()).spec
    except ImportRefused:
        return specs()[name]


@pytest.mark.evidence
def test_measured_configs_through_the_importer() -> None:
    """The same figures from the config.json that was measured, where one can be imported."""
    evidence = json.loads(EVIDENCE.read_text())
    wrong = []
    for row in evidence["dynamic_cache"]:
        spec = _imported(row["name"], row["model_type"], row["config"])
        for batch, prefill, decode, *held in row["runs"]:
            for steps, (size, storage) in ((0, held[:2]), (decode, held[2:])):
                case = {"batch": batch, "prefill": prefill, "decode": steps, "version": "5.24.0"}
                if figures(laid_out(spec, case)) != (size, storage):
                    wrong.append((row["name"], batch, prefill, steps))
    for row in evidence["transformers_4_57_6"]["rows"]:
        spec = _imported(row["name"], row["model_type"], row["config"])
        case = {k: row[k] for k in ("batch", "prefill", "decode")} | {"version": "4.57.6"}
        if figures(laid_out(spec, case)) != (row["bytes"], row["storage"]):
            wrong.append((row["name"], "4.57.6"))
    for row in evidence["encoder_decoder"]:
        spec = _imported(row["name"], row["model_type"], row["config"])
        for run in row["runs"]:
            for moment, steps in (("after_prefill", 0), ("after_decode", run["decode"])):
                case = {
                    "batch": run["batch"],
                    "prefill": run["prefill"],
                    "decode": steps,
                    "encoder_tokens": run["encoder_tokens"],
                    "version": "5.24.0",
                }
                held = (run[moment]["bytes"], run[moment]["storage"])
                if figures(laid_out(spec, case)) != held:
                    wrong.append((row["name"], moment))

    assert wrong == []
