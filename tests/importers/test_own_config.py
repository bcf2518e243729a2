"""An id means its own config: what `load_model(id)` and the import of that id's config.json say.

The whole comparison needs the collected files (`make evidence`). The normal suite holds each id
against `tests/data/configs/own_config.tsv`: what stands in those files under the keys named in its
header, and the bytes of one sequence that follow from them at 4,097 tokens.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import KvplanError
from kvplan.importers.config import import_config
from kvplan.load import load_model
from kvplan.plan.size import size
from kvplan.spec.model import ModelSpec
from tests.evidence import FOLDER

CTX = 4097
TABLE = Path(__file__).parents[1] / "data" / "configs" / "own_config.tsv"
with TABLE.open(encoding="utf-8", newline="") as _file:
    ROWS = {row["hf_id"]: row for row in csv.DictReader(_file, delimiter="\t")}

# Where id and file differ on purpose, and why.
ON_PURPOSE = {
    "MiniMaxAI/MiniMax-M3": "the file is shortened, and its class is that of no engine",
    "stepfun-ai/Step-3.7-Flash": "the file is shortened: class and context are not the model's",
    "stepfun-ai/Step-3.7-Flash-FP8": "the file is shortened: class and context are not the model's",
    "sgl-project/DeepSeek-V4-Flash-FP8": "the reference code's config under another model type",
    "liuhaotian/llava-v1.5-7b": "the file of the older class, which engines do not have",
    "google/gemma-3-270m-it": "the file of a fine-tune in float16",
}


def sized(spec: ModelSpec) -> int:
    """Bytes of one sequence in the format that `auto` means."""
    dtype = "auto" if spec.dtype or spec.kv_dtype else "bf16"
    return logical_cache(spec, Request(ctx=CTX, dtype=dtype)).bytes


@pytest.mark.parametrize("hf_id", sorted(ROWS))
def test_what_its_file_says(hf_id: str) -> None:
    """Format, cache format and quantisation where the file states them, and the bytes."""
    row, spec = ROWS[hf_id], load_model(hf_id).spec
    if row["torch_dtype"] and hf_id not in ON_PURPOSE:
        assert spec.dtype == row["torch_dtype"]
    if row["quant_method"] and hf_id not in ON_PURPOSE:
        assert spec.quant_method == row["quant_method"]
    if row["torch_dtype"] and hf_id not in ON_PURPOSE:
        assert sized(spec) == int(row["bytes"])


def _files() -> list[Path]:
    folders = (FOLDER / "configs", FOLDER / "models" / "configs")
    return [path for folder in folders for path in sorted(folder.glob("*__*.json"))]


@pytest.mark.evidence
def test_every_id_is_the_size_of_its_file() -> None:
    """By id and by file, for auto and for vLLM, wherever the file states dtype and class."""
    compared = refused = 0
    for path in _files():
        hf_id = path.stem.replace("__", "/", 1)
        try:
            own = load_model(hf_id)
        except KvplanError:
            continue
        try:
            found = import_config(str(path)).spec
        except KvplanError:
            refused += 1
            continue
        if hf_id in ON_PURPOSE or not found.dtype or not found.architecture:
            continue
        compared += 1
        assert sized(own.spec) == sized(found), hf_id
        by_id, by_file = (size(one, ctx=2048, engine="vllm").allocated for one in (own, found))
        assert by_id is not None
        assert by_file is not None
        assert (by_id.bytes, bool(by_id.refusal)) == (by_file.bytes, bool(by_file.refusal)), hf_id
    assert compared > 190
    assert refused <= 14
