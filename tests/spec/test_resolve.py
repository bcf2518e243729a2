"""Names that no spec bears: what they are taken for, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import UnknownModelError
from kvplan.load import load_model
from kvplan.plan.models import list_models
from tests.importers.gguf_writer import write_truth_model

# name -> spec; by Ollama's and RamaLama's pages, Bedrock's ids and uploaders' own tables.
TAKEN = {
    "mistral": "mistral-7b-instruct-v0.3",
    "mistral:7b": "mistral-7b-instruct-v0.3",
    "mistral:7b-instruct-q4_K_M": "mistral-7b-instruct-v0.3",
    "ollama.com/library/mistral:7b": "mistral-7b-instruct-v0.3",
    "qwen3:30b-a3b": "qwen3-30b-a3b-instruct-2507",
    "llama3.2:3b-instruct-q4_K_M": "llama3.2-3b",
    "mistral-nemo:12b-instruct-2407-q4_0": "mistral-nemo-instruct-2407",
    "qwen2.5:14b": "qwen2.5-14b-instruct",
    "qwen2.5:72b": "qwen2.5-72b-instruct",
    "deepseek-r1:8b": "qwen3-8b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "phi3:medium-128k": "phi-3-medium-128k",
    "phi3:mini": "phi-3-mini-4k",
    "granite3.1-dense:8b-instruct-q4_K_M": "granite-3.1-8b-instruct",
    "gpt-oss": "gpt-oss-20b",
    "us.meta.llama3-3-70b-instruct-v1:0": "llama3.1-70b",
    "meta.llama3-1-405b-instruct-v1:0": "llama3.1-405b",
    "unsloth/mistral-7b-bnb-4bit": "mistral-7b-v0.1",
    "unsloth/llama-3-8b-bnb-4bit": "llama3-8b",
    "Qwen/Qwen3-32B-AWQ": "qwen3-32b",
}


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_what_a_name_is_taken_for(name: str) -> None:
    """The base is right, and the result says what was taken."""
    found = load_model(name)
    assert found.spec.name == TAKEN[name]
    assert [notice.id for notice in found.warnings] == ["taken-as"]
    assert found.warnings[0].message.startswith(name.split(":")[0].split("-bnb")[0][:5])


def test_a_tag_that_moved_says_so() -> None:
    """The date of the table, and what the tag meant before."""
    (notice,) = load_model("mistral:7b").warnings
    assert "on 2026-11-30" in notice.message
    assert "before 2024-05-22 it was v0.2" in notice.message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("command-r", "command-r-08-2024 (gqa, 8 KV heads), command-r-v01 (mha, 64 KV heads)"),
        ("mistral-small", "(40 layers), mistral-small-instruct-2409 (56 layers)"),
        ("mistral-7b", "mistral-7b-v0.1 (gqa+sliding, window 4,096)"),
        ("x/Mistral-7B-GGUF", "mistral-7b-v0.1 (gqa+sliding, window 4,096)"),
    ],
)
def test_an_ambiguous_name_lists_what_differs(name: str, hint: str) -> None:
    """Each candidate with the facts in which it differs."""
    with pytest.raises(UnknownModelError) as error:
        load_model(name)
    assert error.value.ambiguous
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("z-lab/Qwen3.6-27B-DFlash", "draft model (dflash)"),
        ("gpt-oss:120b-cloud", "Ollama's servers"),
        ("mistral.mistral-small-2402-v1:0", "closed model"),
        ("zephyr:7b", "HuggingFaceH4/zephyr-7b-beta (table of 2026-11-30), whose facts are not"),
        ("inference-optimization/Kimi-K3-0.40B", "no model is called"),
        ("ManniX-ITA/Qwen3.6-27B-A3B-CoderX", "no model is called"),
    ],
)
def test_what_must_not_resolve(name: str, text: str) -> None:
    """Drafts, remote and closed models, bases without facts, other models of a like name."""
    with pytest.raises(UnknownModelError, match=text.replace("(", r"\(").replace(")", r"\)")):
        load_model(name)


def test_a_copy_has_weights_of_its_own_and_the_cache_its_name_declares() -> None:
    """The quantisation is the copy's, and an FP8 cache where the name says one."""
    found = load_model("someone/Llama-3.1-8B-Instruct-FP8-KV")
    assert found.spec.quant_method == "fp8"
    assert found.spec.kv_dtype == "fp8_e4m3"
    assert found.hf_id == "meta-llama/Llama-3.1-8B-Instruct"
    assert found.upload == "someone/Llama-3.1-8B-Instruct-FP8-KV"


def test_an_id_means_its_own_config() -> None:
    """What a quantised or tuned upload's file says otherwise stands with its id."""
    assert load_model("Qwen/Qwen3-8B-FP8").spec.quant_method == "fp8"
    assert load_model("Qwen/Qwen3-8B").spec.quant_method is None
    assert load_model("Qwen/Qwen3-8B-Base").spec.max_context == 32768
    assert load_model("qwen3-8b").spec.max_context == 40960
    assert load_model("Alibaba-NLP/gte-Qwen2-7B-instruct").spec.text_attention == "bidirectional"


def test_search_finds_by_a_server_s_name() -> None:
    """`kvplan models --search` takes the same names."""
    assert "mistral-7b-instruct-v0.3" in [spec.name for spec in list_models(search="mistral:7b")]
    assert "phi-4-mini" in [spec.name for spec in list_models(search="phi4-mini-reasoning")]


def test_a_model_that_ollama_has_pulled_wins_over_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest names the GGUF layer; its file says what the tag means here."""
    digest = "a" * 64
    (tmp_path / "blobs").mkdir()
    write_truth_model(
        tmp_path / "blobs" / f"sha256-{digest}",
        "llama",
        {
            "general.architecture": "llama",
            "block_count": 2,
            "context_length": 4096,
            "embedding_length": 64,
            "attention.head_count": 4,
            "attention.head_count_kv": 2,
        },
    )
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "mistral" / "7b"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(json.dumps({"layers": [{"mediaType": "x", "digest": "y"}, layer]}))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))

    found = load_model("mistral:7b")

    assert len(found.spec.layers) == 2
    assert "ollama-store" in [notice.id for notice in found.warnings]
    manifest.write_text("{")
    assert load_model("mistral:7b").spec.name == "mistral-7b-instruct-v0.3"
