"""Every published fact of `tests/data/facts/facts.tsv` stands in the spec that answers to its id.

The table holds what published config files say (one row per Hugging Face id, with its source). It
was made from those files, not from the specs, so the two can disagree. Where the table itself is
wrong, `WRONG` says in which column and why.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kvplan.dtypes import find_dtype
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import Rwkv
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    FullAttention,
    HeadState,
    LatentAttention,
    SharedCache,
    SlidingAttention,
    State,
)

TABLE = Path(__file__).parents[1] / "data" / "facts" / "facts.tsv"
with TABLE.open(encoding="utf-8", newline="") as _file:
    ROWS = {row["hf_id"]: row for row in csv.DictReader(_file, delimiter="\t")}

_SOFTMAX = "all 62 entries of attn_type_list are 1, softmax: no layer is linear"
_EDITED = "an edited copy for another runner; the maker documents 128K = 131,072"
_SHORTENED = "a shortened copy; the maker documents 256K = 262,144"
WRONG: dict[str, dict[str, str]] = {
    "MiniMaxAI/MiniMax-M2": {"attention": _SOFTMAX},
    "MiniMaxAI/MiniMax-M2.7": {"attention": _SOFTMAX},
    "nvidia/MiniMax-M2.5-NVFP4": {"attention": _SOFTMAX},
    "nvidia/MiniMax-M2.7-NVFP4": {"attention": _SOFTMAX},
    "google/gemma-3-4b-it": {"max_positions": _EDITED},
    "google/gemma-3-12b-it": {"max_positions": _EDITED},
    "microsoft/Phi-4-mini-reasoning": {
        "attention": "its model type was renamed for another runner, so its window was not read; "
        "the window of 262144 is longer than the context, as in Phi-4-mini-instruct"
    },
    "stepfun-ai/Step-3.7-Flash": {"max_positions": _SHORTENED},
    "stepfun-ai/Step-3.7-Flash-FP8": {"max_positions": _SHORTENED},
    "Qwen/Qwen-7B": {
        "max_positions": "the position table; engines take the smaller seq_length of 8192"
    },
    "Qwen/Qwen1.5-1.8B-Chat": {
        "max_positions": "the inlined copy was cut to 4096; the published file says 32768"
    },
    "Qwen/Qwen1.5-MoE-A2.7B": {
        "max_positions": "the inlined copy was raised to 32768; the published file says 8192"
    },
}


@pytest.fixture(scope="module")
def specs() -> dict[str, ModelSpec]:
    """The spec of every id of the table; an id that no spec answers to fails here."""
    catalogue = Catalogue([])
    return {hf_id: catalogue.find(hf_id).spec() for hf_id in ROWS}


def _layers(spec: ModelSpec) -> list[tuple[State, ...]]:
    """States per layer, a shared layer showing those of the layer it reads."""
    layers = [spec.kinds[name] for name in spec.layers]
    for index, source in spec.shared_sources().items():
        if index < len(layers):
            layers[index] = layers[source]
    assert not any(isinstance(state, SharedCache) for states in layers for state in states)
    return layers


def _of(spec: ModelSpec, *kinds: type[State]) -> list[State]:
    return [state for states in _layers(spec) for state in states if isinstance(state, kinds)]


def _count(spec: ModelSpec, *kinds: type[State]) -> int:
    return sum(any(isinstance(state, kinds) for state in states) for states in _layers(spec))


def _found(spec: ModelSpec, column: str) -> set[object]:
    """What a spec says in a column; several values where its layers differ."""
    heads = [state for state in _of(spec, HeadState) if isinstance(state, HeadState)]
    latents = [state for state in _of(spec, LatentAttention) if isinstance(state, LatentAttention)]
    compressed = [s for s in _of(spec, CompressedLatent) if isinstance(s, CompressedLatent)]
    found: set[object]
    match column:
        case "layers":
            return {len(spec.layers)}
        case "heads":
            return {spec.heads}
        case "kv_heads":
            # One latent serves all heads, which the published key then counts; V4 has one vector.
            found = {s.kv_heads for s in heads} | {s.heads or spec.heads for s in latents}
            return found | {1 for _ in compressed}
        case "head_dim":
            found = {s.head_dim for s in heads} | {s.head_dim for s in compressed}
            found |= {s.head_dim for s in _of(spec, Rwkv) if isinstance(s, Rwkv)}
            return found | {(s.qk_nope_head_dim or 0) + s.qk_rope_head_dim for s in latents}
        case "v_head_dim":
            return {s.value_dim for s in heads} | {s.v_head_dim for s in latents}
        case "attention":
            return {attention_label(spec)}
        case "window":
            sliding = {s.window for s in heads if isinstance(s, SlidingAttention)}
            chunks = {s.chunk for s in heads if isinstance(s, ChunkedAttention)}
            return sliding | chunks | {s.window for s in compressed}
        case "sliding_layers":
            return {_count(spec, SlidingAttention, ChunkedAttention)}
        case "full_layers":
            return {_count(spec, FullAttention, LatentAttention)}
        case "draft_layers":
            return {len(spec.draft_layers)}
        case "kv_lora_rank":
            return {s.kv_lora_rank for s in latents}
        case "qk_rope_head_dim":
            return {s.qk_rope_head_dim for s in latents}
        case "max_positions":
            return {spec.max_context}
        case "dtype":
            return {spec.dtype}
        case "kv_quant":
            return {"float8" if spec.kv_dtype in ("fp8_e4m3", "fp8") else spec.kv_dtype}
    raise KeyError(column)


COLUMNS = [name for name in next(iter(ROWS.values())) if name not in ("hf_id", "source")]


@pytest.mark.parametrize("hf_id", ROWS)
def test_spec_agrees_with_the_published_facts(hf_id: str, specs: dict[str, ModelSpec]) -> None:
    """Layers, heads, widths, windows, ranks, context and format of every row."""
    row, spec = ROWS[hf_id], specs[hf_id]
    differ = {}
    for column in COLUMNS:
        said = row[column]
        if not said or column in WRONG.get(hf_id, {}):
            continue
        wanted: object = int(said) if said.isdigit() else said
        if column in ("v_head_dim", "qk_rope_head_dim") and wanted == 0:
            continue  # deepseek-vl2-tiny writes 0 for "not MLA"
        found = _found(spec, column)
        if wanted not in found:
            differ[column] = (wanted, found)
    assert not differ


def test_a_row_without_a_cache_format_has_none(specs: dict[str, ModelSpec]) -> None:
    """No spec claims a cache format that the published file does not declare, and each is known."""
    for hf_id, spec in specs.items():
        assert bool(spec.kv_dtype) == bool(ROWS[hf_id]["kv_quant"]), hf_id
        assert spec.kv_dtype is None or find_dtype(spec.kv_dtype) is not None


def test_every_exception_is_still_one(specs: dict[str, ModelSpec]) -> None:
    """A row listed as wrong really differs from its spec; else the exception must go."""
    for hf_id, columns in WRONG.items():
        for column in columns:
            said = ROWS[hf_id][column]
            assert (int(said) if said.isdigit() else said) not in _found(specs[hf_id], column)


def test_the_table_is_whole() -> None:
    """270 published ids, each with a source."""
    assert len(ROWS) == 270
    assert all(row["source"] for row in ROWS.values())
