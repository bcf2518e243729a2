"""The GGUF importer against llama.cpp: 79 metadata sets and the tensors it allocated for them.

The spec says what one token (or one sequence) keeps in each layer; llama.cpp's own figures say how
many cells it gave each cache. Their product must be the bytes it measured, tensor group by group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.documents.from_yaml import read_yaml
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import InputError
from kvplan.importers.config import import_config
from kvplan.importers.gguf import import_gguf
from kvplan.importers.imported import Imported
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    FullAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SlidingAttention,
    State,
)
from kvplan.spec.writer import write_spec
from tests.evidence import CONFIGS, TRUTH
from tests.importers.gguf_writer import write_truth_model

RECORDED = Path(__file__).parents[1] / "data" / "llamacpp" / "recorded.json"
ENGINE_CONFIGS = TRUTH / "vllm_configs.json"

# Tensor group -> states it holds. MTP heads of the sparse models run without their indexer.
GROUPS: dict[str, tuple[type[State], ...]] = {
    "kv": (FullAttention, LatentAttention),
    "kv_base": (FullAttention,),
    "kv_mla": (LatentAttention,),
    "kv_swa": (SlidingAttention, ChunkedAttention, CompressedLatent),
    "kv_csa": (CompressedLatent,),
    "kv_hca": (CompressedLatent,),
    "kv_indexer": (Indexer,),
}
RATIOS = {"kv_csa": 4, "kv_hca": 128}
# llama.cpp caches more than the model keeps: windows it does not use, latents it decompresses.
UNUSED_WINDOW = {"phi-3-mini-4k"}
AS_HEADS = {"minicpm3-4b": (40 * 96, 40 * 64)}

# Truth files named by size -> the config of the very model.
SAME_MODEL = {
    "codestral-mamba-7b": "mistralai__Mamba-Codestral-7B-v0.1",
    "command-r-35b": "CohereForAI__c4ai-command-r-v01",
    "deepseek-v2-lite": "deepseek-ai__DeepSeek-V2-Lite",
    "ernie-4.5-21b-a3b": "baidu__ERNIE-4.5-21B-A3B-PT",
    "falcon-h1-7b": "tiiuae__Falcon-H1-7B-Instruct",
    "gemma-3-4b": "google__gemma-3-4b-it",
    "gemma-3-12b": "google__gemma-3-12b-it",
    "gemma-3-27b": "google__gemma-3-27b-it",
    "gemma-3n-e4b": "google__gemma-3n-E4B-it-text",
    "gpt2": "openai-community__gpt2",
    "granite-4.0-h-small": "ibm-granite__granite-4.0-h-small",
    "granite-4.0-h-tiny": "ibm-granite__granite-4.0-h-tiny",
    "hunyuan-a13b": "tencent__Hunyuan-A13B-Instruct",
    "jamba-v0.1": "ai21labs__Jamba-v0.1",
    "k-exaone-236b": "LGAI-EXAONE__K-EXAONE-236B-A23B",
    "kimi-linear-48b-a3b": "moonshotai__Kimi-Linear-48B-A3B-Instruct",
    "llama-2-7b": "meta-llama__Llama-2-7b-hf",
    "llama-3.2-3b": "meta-llama__Llama-3.2-3B",
    "mamba-2.8b": "state-spaces__mamba-2.8b-hf",
    "minicpm3-4b": "openbmb__MiniCPM3-4B",
    "mistral-7b-v0.1": "mistralai__Mistral-7B-v0.1",
    "olmo-3-7b": "allenai__Olmo-3-7B-Instruct",
    "phi-2": "microsoft__phi-2",
    "phi-4-14b": "microsoft__phi-4",
    "qwen2.5-7b": "Qwen__Qwen2.5-7B",
    "qwen2.5-72b": "Qwen__Qwen2.5-72B",
    "seed-oss-36b": "ByteDance-Seed__Seed-OSS-36B-Instruct",
    "smollm3-3b": "HuggingFaceTB__SmolLM3-3B",
    "tinyllama-1.1b": "TinyLlama__TinyLlama-1.1B-Chat-v0.4",
}
# The converter drops Mistral's window, so the file cannot say what the config says.
WINDOW_LOST = {"mistral-7b-v0.1"}


@cache
def truth() -> dict[str, Any]:
    return json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Imported]:
    """Every metadata set, written as a GGUF file and read back."""
    folder = tmp_path_factory.mktemp("gguf")
    return {
        name: import_gguf(write_truth_model(folder / f"{name}.gguf", model["arch"], model["gguf"]))
        for name, model in truth()["models"].items()
    }


def test_all_metadata_sets_are_read(imported: dict[str, Imported]) -> None:
    """None refused, none assumed, and each survives being written as a spec."""
    assert len(imported) == 79
    for name, found in imported.items():
        assert "assumed-plain-attention" not in [warning.id for warning in found.warnings]
        text = write_spec(found.spec, comments=found.comments())
        assert read_spec(read_yaml(text, name)) == found.spec
        model = truth()["models"][name]
        assert len(found.spec.layers) == model["n_layer"]
        assert len(found.spec.draft_layers) == model["n_layer_nextn"]


def test_layers_slide_and_recur_where_llama_cpp_says(imported: dict[str, Imported]) -> None:
    """Letter by letter its own maps of sliding and recurrent layers."""
    for name, model in truth()["models"].items():
        spec = imported[name].spec
        if imported[name].warnings and name not in AS_HEADS:
            continue
        kept = [spec.kinds[kind] for kind in (*spec.layers, *spec.draft_layers)]
        recurrent = [
            "R" if any(isinstance(s, RecurrentState) for s in states) else "." for states in kept
        ]
        assert "".join(recurrent) == model["recr_map"], name
        owners = spec.shared_sources()
        sources = [kept[owners.get(layer, layer)] for layer in range(len(kept))]
        slides = [
            "S" if any(isinstance(s, GROUPS["kv_swa"]) for s in states) else "."
            for states in sources
        ]
        assert "".join(slides) == model["swa_map"], name


def row(state: State) -> tuple[int, int]:
    """K and V elements of one token in one layer."""
    if isinstance(state, HeadState):
        return state.kv_heads * state.head_dim, state.kv_heads * state.value_dim
    if isinstance(state, LatentAttention):
        return state.kv_lora_rank + state.qk_rope_head_dim, 0
    assert isinstance(state, CompressedLatent | Indexer)
    return state.head_dim, 0


def group_states(name: str, spec: ModelSpec, group: str, mtp: bool) -> Iterator[State]:
    """The states whose tensors stand in a group, one per layer."""
    for kind in spec.draft_layers if mtp else spec.layers:
        for state in spec.kinds[kind]:
            held = isinstance(state, GROUPS[group]) and not (
                group == "kv" and isinstance(state, Indexer)
            )
            if group in RATIOS:
                held = isinstance(state, CompressedLatent) and state.ratio == RATIOS[group]
            if held or (name in UNUSED_WINDOW and isinstance(state, SlidingAttention)):
                yield state


def test_measured_tensors_are_the_specs_rows_times_cells(imported: dict[str, Imported]) -> None:
    """Each f16 case: rows x cells x streams x 2 bytes; recurrent states x 4 bytes (always f32)."""
    seen = 0
    for case in truth()["cases"]:
        p, name = case["p"], case["m"]
        spec = imported[name].spec
        for group, measured in case["c"].items():
            if group == "rs":
                kept = [
                    state
                    for kind in spec.layers
                    for state in spec.kinds[kind]
                    if isinstance(state, RecurrentState)
                ]
                conv = sum(state.conv_elements for state in kept)
                matrix = sum(state.matrix_elements for state in kept)
                assert len(kept) == measured["layers"], name
                assert measured["r"] == 4 * conv * measured["cells"], name
                assert measured["s"] == 4 * matrix * measured["cells"], name
            elif group in GROUPS:
                rows = [row(state) for state in group_states(name, spec, group, "mtp" in p)]
                if name in AS_HEADS:
                    rows = [AS_HEADS[name]] * len(spec.layers)
                cells = measured["cells"] * measured["streams"]
                assert measured["k"] == 2 * sum(k for k, _ in rows) * cells, (name, p, group)
                assert measured["v"] == 2 * sum(v for _, v in rows) * cells, (name, p, group)
            seen += 1
    assert seen > 1000


def configs() -> Iterator[tuple[str, Any]]:
    """Truth name -> the config.json of the same model, where one is at hand."""
    more = json.loads(ENGINE_CONFIGS.read_text()) if ENGINE_CONFIGS.exists() else {}
    for name in truth()["models"]:
        config = SAME_MODEL.get(name, name.replace("--", "__"))
        if (CONFIGS / f"{config}.json").exists():
            yield name, CONFIGS / f"{config}.json"
        elif config in more:
            yield name, more[config]["config"]


@pytest.mark.evidence
def test_gguf_and_config_of_a_model_agree(imported: dict[str, Imported]) -> None:
    """To the byte at three contexts, in f16, over all models of which both files are at hand."""
    compared = 0
    for name, config in configs():
        ours, theirs = imported[name].spec, import_config(config).spec
        if name in WINDOW_LOST:
            assert {state.kind for state in ours.states()} == {"full"}
            assert {state.kind for state in theirs.states()} == {"sliding"}
            continue
        for ctx in (1000, 8192, 131_072):
            request = Request(ctx=ctx, dtype="f16")
            assert logical_cache(ours, request).bytes == logical_cache(theirs, request).bytes, name
        compared += 1
    assert compared >= 50


_CHANGES = st.one_of(
    st.just("absent"),
    st.integers(-1, 9),
    st.sampled_from([64, 512, 2**31, 2**63]),
    st.booleans(),
    st.floats(width=32),
    st.lists(st.integers(0, 8), max_size=9),
    st.sampled_from(["shorter", "longer", "none"]),
)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_real_metadata_with_a_changed_key_is_a_model_or_a_refusal(
    tmp_path: Path, data: st.DataObject
) -> None:
    """No other error, no silent zero, and what is written reads back the same."""
    model = truth()["models"][data.draw(st.sampled_from(sorted(truth()["models"])))]
    keys = dict(model["gguf"])
    shaping = [key for key in keys if not key.startswith(("expert", "rope.freq"))]
    for key in data.draw(st.lists(st.sampled_from(shaping), min_size=1, max_size=2)):
        change = data.draw(_CHANGES)
        old = keys.get(key, 0)
        if change == "absent":
            keys.pop(key, None)
        elif change in ("shorter", "longer") and isinstance(old, list) and old:
            keys[key] = old[:-1] if change == "shorter" else [*old, old[-1]]
        else:
            keys[key] = change
    path = write_truth_model(tmp_path / "changed.gguf", model["arch"], keys)
    try:
        found = import_gguf(path)
    except InputError as error:
        assert error.message
        return

    assert logical_cache(found.spec, Request(ctx=4096)).bytes or found.warnings
    text = write_spec(found.spec, comments=found.comments())
    assert read_spec(read_yaml(text, "changed")) == found.spec
