"""Hundreds of real configs, where they are at hand: against published facts and vLLM's own plans.

The evidence holds config.json files with a table of facts (FACTS.tsv), and the configs that vLLM
0.33.0 was asked to plan, with its plans.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvplan.documents.from_yaml import read_yaml
from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
    State,
)
from kvplan.spec.writer import write_spec
from tests.evidence import CONFIGS, TRUTH

pytestmark = pytest.mark.evidence

# The table calls MiniMax M2 "hybrid-linear" for having an attn_type_list, which is all softmax;
# vLLM plans full attention on every layer.
LABELS = {"MiniMaxAI/MiniMax-M2": "gqa"}

# True refusals: how many bytes a pooled indexer keeps is written nowhere.
REFUSED = {"zai-org__GLM-5.3-Flash-default"}

# vLLM 0.33.0 stores these otherwise than the model keeps them: MiniCPM3 decompressed, MiMo-7B in
# windows although its file switches them off.
OTHERWISE = {"openbmb__MiniCPM3-4B", "XiaomiMiMo__MiMo-7B-Base"}


def fact_rows() -> list[dict[str, str]]:
    """The rows of FACTS.tsv whose config is there."""
    if not CONFIGS.is_dir():
        return []
    with (CONFIGS / "FACTS.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in rows if row["file"] and (CONFIGS / row["file"]).is_file()]


@cache
def truth(name: str) -> Any:
    """A file of vLLM's figures."""
    return json.loads((TRUTH / name).read_text()) if TRUTH.is_dir() else {}


def states_of(spec: ModelSpec) -> list[State]:
    """Every distinct state."""
    return [state for states in spec.kinds.values() for state in states]


@pytest.mark.parametrize("row", fact_rows(), ids=lambda row: row["hf_id"])
def test_published_facts(row: dict[str, str]) -> None:
    """Layers, heads, head sizes, windows, latents and the kind of attention equal the table's."""
    spec = import_config(CONFIGS / row["file"]).spec
    states = states_of(spec)
    if row["num_hidden_layers"]:
        assert len(spec.layers) == int(row["num_hidden_layers"])
    if row["num_attention_heads"]:
        assert spec.heads == int(row["num_attention_heads"])
    if row["attention_kind"]:
        assert attention_label(spec) == LABELS.get(row["hf_id"], row["attention_kind"])
    heads = [state for state in states if isinstance(state, HeadState)]
    if heads and row["num_key_value_heads"]:
        assert int(row["num_key_value_heads"]) in {state.kv_heads for state in heads}
        assert int(row["head_dim"]) in {state.head_dim for state in heads}
    if row["kv_lora_rank"]:
        latent = next(state for state in states if isinstance(state, LatentAttention))
        assert latent.kv_lora_rank == int(row["kv_lora_rank"])
        assert latent.qk_rope_head_dim == int(row["qk_rope_head_dim"])
    windows = {s.window for s in states if isinstance(s, (SlidingAttention, CompressedLatent))}
    open_ended = ("off", "rule by class")  # a window that the table itself does not count
    if windows or not any(word in row["sliding_window_layers"] for word in open_ended):
        declared = {row["sliding_window"]} - {"", "null"}
        assert {str(window) for window in windows} == declared
    assert (spec.kv_dtype is not None) == bool(row["kv_cache_quant"])


def vllm_names() -> list[str]:
    """The configs vLLM was asked to plan."""
    return sorted(truth("vllm_configs.json"))


@pytest.mark.parametrize("name", vllm_names())
def test_imported_or_refused(name: str) -> None:
    """Every config is imported, and comes back from its YAML as the identical model; or refused."""
    config = truth("vllm_configs.json")[name]["config"]
    if name in REFUSED:
        with pytest.raises(ImportRefused):
            import_config(config)
        return
    found = import_config(config, name=name.lower())
    assert not found.warnings
    text = write_spec(found.spec, comments=found.comments())
    assert read_spec(read_yaml(text, "spec.yaml")) == found.spec


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_files_come_back(path: Path) -> None:
    """Every file's spec, written out with its origins, reads back as the identical model."""
    found = import_config(path)
    text = write_spec(found.spec, comments=found.comments())
    assert read_spec(read_yaml(text, "spec.yaml")) == found.spec


def planned() -> Iterator[tuple[str, dict[str, Any]]]:
    """For each model the first plan on one GPU without further flags."""
    seen = set()
    for case in truth("vllm.json").get("cases", ()):
        given, output = case["input"], case["output"]
        plain = given["tp"] == 1 and not {"extra", "env", "pp", "dcp"} & set(given)
        if plain and "specs" in output and given["model"] not in seen:
            seen.add(given["model"])
            yield given["model"], output


@pytest.mark.parametrize(
    ("name", "output"), list(planned()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_layers_of_vllm(name: str, output: dict[str, Any]) -> None:
    """Kinds, heads, head sizes, windows and state shapes equal vLLM's layer by layer."""
    if name in OTHERWISE:
        pytest.skip("vLLM stores it otherwise than the model keeps it")
    spec = import_config(truth("vllm_configs.json")[name]["config"]).spec
    kept: Counter[Any] = Counter()
    for layer in spec.layers:
        for state in spec.kinds[layer]:
            kept.update(_kept(state))
    assert kept == _planned(output["specs"])


def _kept(state: State) -> list[Any]:
    if isinstance(state, LatentAttention):
        return [("latent", state.kv_lora_rank + state.qk_rope_head_dim, 1)]
    if isinstance(state, Indexer):
        return [("indexer", state.ratio)]
    if isinstance(state, CompressedLatent):
        beyond = [("latent", state.head_dim, state.ratio)] if state.ratio else []
        return [("latent window", state.head_dim, state.window), *beyond]
    if isinstance(state, RecurrentState):
        shapes = []
        if state.conv_elements and state.conv_kernel:
            shapes.append((state.conv_kernel - 1, state.conv_channels))
        return [("state", (*shapes, *([state.matrix_shape] if state.matrix_shape else [])))]
    if isinstance(state, HeadState):
        limit = getattr(state, "window", getattr(state, "chunk", None))
        kind = {SlidingAttention: "SlidingWindow", ChunkedAttention: "ChunkedLocalAttention",
                CrossAttention: "CrossAttention"}.get(type(state), "FullAttention")  # fmt: skip
        return [(kind, state.kv_heads, state.head_dim, state.value_dim, limit)]
    return []


def _planned(specs: list[dict[str, Any]]) -> Counter[Any]:
    plan: Counter[Any] = Counter()
    for spec in specs:
        kind, count = spec["type"].removesuffix("Spec"), spec["count"]
        per_state = spec.get("tokens_per_state", 1)
        if kind == "Mamba":
            plan["state", tuple(map(tuple, spec["shapes"]))] += count
        elif kind == "MLAAttention":
            # 132 bytes: an indexer's fp8 key and scale; 128 elements: MiniMax M3's index key.
            indexer = spec["head_size"] in (132, 128)
            plan[
                ("indexer", per_state) if indexer else ("latent", spec["head_size"], per_state)
            ] += count
        elif kind == "SlidingWindowMLA":
            if spec["dtype"] != "float32":  # the compressor's buffers are the engine's own
                plan["latent window", spec["head_size"], spec["sliding_window"]] += count
        else:
            limit = spec.get("sliding_window") or spec.get("attention_chunk_size")
            value = spec.get("head_size_v", spec["head_size"])
            plan[kind, spec["num_kv_heads"], spec["head_size"], value, limit] += count
    return plan
