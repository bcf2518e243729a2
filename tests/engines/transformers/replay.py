"""Reading measured caches: rows of (model, options, run) with bytes, storage and tensors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.documents.from_yaml import read_yaml
from kvplan.engines.layout import CacheLayout
from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec
from tests.evidence import TRUTH

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "transformers"
EVIDENCE = TRUTH / "transformers.json"

ENGINE = TransformersEngine()
TORCH = {
    "bf16": "bfloat16",
    "f32": "float32",
    "u8": "uint8",
    "i32": "int32",
    "f8e4m3": "float8_e4m3fn",
}


@cache
def measured() -> dict[str, Any]:
    """The committed rows."""
    data: dict[str, Any] = json.loads((DATA / "measured.json").read_text())
    return data


@cache
def specs() -> Mapping[str, ModelSpec]:
    """The committed models by the names the rows use."""
    texts = (DATA / "specs.yaml").read_text().split("---\n")[1:]
    return {
        name: read_spec(read_yaml(text, name))
        for name, text in zip(measured()["specs"], texts, strict=True)
    }


def laid_out(spec: ModelSpec, row: Mapping[str, Any]) -> CacheLayout:
    """The engine's answer to a row."""
    request = Request(
        ctx=row["prefill"] + row["decode"],
        batch=row["batch"],
        encoder_tokens=row.get("encoder_tokens"),
        options={**row.get("options", {}), "prefill": str(row["prefill"])},
    )
    return ENGINE.layout(spec, request, row["version"])


def figures(layout: CacheLayout) -> tuple[int, int]:
    """(bytes, storage) of an answer, the first summed over the tensors it lists."""
    return layout.bytes, layout.figures["storage_bytes"]


def counted(layout: CacheLayout) -> Counter[tuple[tuple[int, ...], str]]:
    """How many tensors of each shape and dtype an answer lists."""
    return Counter((tensor.shape, tensor.dtype) for tensor in layout.ranks[0].tensors)


def counted_row(row: Mapping[str, Any]) -> Counter[tuple[tuple[int, ...], str]]:
    """The same of a measured row."""
    found: Counter[tuple[tuple[int, ...], str]] = Counter()
    for shape, dtype, count in row["tensors"]:
        found[tuple(shape), TORCH[dtype]] += count
    return found
