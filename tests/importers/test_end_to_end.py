"""Import and size together: hundreds of real files, as files, through the command.

`size FILE` and `size (kvplan import FILE)` are the same model and the same bytes; where the
catalogue answers to a file's Hugging Face id, it and the importer agree to the byte.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.importers.weights import weights_of
from kvplan.load import load_model
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.model import ModelSpec
from tests.evidence import CONFIGS, TRUTH
from tests.importers.config_cases import llama
from tests.importers.gguf_writer import write_truth_model

ENGINE_CONFIGS = TRUTH / "vllm_configs.json"
RECORDED = Path(__file__).parents[1] / "data" / "llamacpp" / "recorded.json"

# True refusals: how many bytes a pooled indexer keeps is written nowhere.
REFUSED = {"zai-org/GLM-5.3-Flash-default"}

# Saved again in bfloat16; the maker's file says float32, which its convolution states follow.
# The file called Bamba-9B was put together and leaves the state's size to its class, which says
# 256; the parameter count of the model fits 128.
OTHER_STATES = {"state-spaces/mamba-2.8b-hf", "ibm-ai-platform/Bamba-9B-v1"}

# Draft layers (MTP) on one side only: a shortened file without them (GLM-4.7-FP8), a file saved
# again with its class's default of one (Moonlight), a file that leaves them to the engine's class
# and a catalogue that does not list them (Qwen3-Next).
OTHER_DRAFTS = {
    "zai-org/GLM-4.7-FP8",
    "moonshotai/Moonlight-16B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3-Next-80B-A3B-Instruct-FP8",
    "Qwen/Qwen3-Next-80B-A3B-Thinking",
}


@cache
def collected() -> dict[str, Any]:
    """Config by its Hugging Face id, `vllm:` before those an engine's plans are recorded for."""
    found = {
        path.stem.replace("__", "/", 1): json.loads(path.read_text())
        for path in sorted(CONFIGS.glob("*.json"))
    }
    if ENGINE_CONFIGS.is_file():
        for name, entry in json.loads(ENGINE_CONFIGS.read_text()).items():
            found["vllm:" + name.replace("__", "/", 1)] = entry["config"]
    return found


@cache
def class_defaults() -> frozenset[str]:
    """Files that hold the defaults of a class, not the sizes of the model they are called by."""
    entries = json.loads(ENGINE_CONFIGS.read_text()) if ENGINE_CONFIGS.is_file() else {}
    made = (name for name, entry in entries.items() if "class default" in entry["source"])
    return frozenset("vllm:" + name.replace("__", "/", 1) for name in made)


@cache
def gguf_models() -> dict[str, Any]:
    """Metadata as llama.cpp's converter wrote it, by model."""
    models: dict[str, Any] = json.loads(RECORDED.read_text())["models"]
    return models


def hf_id(name: str) -> str:
    """The id behind a name of the collection."""
    return name.removeprefix("vllm:")


def contexts(spec: ModelSpec) -> tuple[int, int, int]:
    """One token, a few thousand, and the model's maximum."""
    return 1, 4097, spec.max_context or 131072


def bytes_at(spec: ModelSpec, ctx: int, *, with_draft: bool = False) -> int:
    """Bytes of one sequence in bfloat16, the format that every file here can be asked in."""
    return logical_cache(spec, Request(ctx=ctx, dtype="bf16", with_draft=with_draft)).bytes


def check_round_trip(path: Path, folder: Path, capsys: Any) -> None:
    """The spec that `kvplan import` writes is the model that `kvplan size` reads from the file."""
    out = folder / "spec.yaml"
    assert main(["import", str(path), "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    direct, again = load_model(str(path)), load_model(str(out))
    assert again.spec == direct.spec
    for ctx in contexts(direct.spec):
        for draft in (False, True):
            size = bytes_at(direct.spec, ctx, with_draft=draft)
            assert bytes_at(again.spec, ctx, with_draft=draft) == size
    keeps = any(states for states in direct.spec.kinds.values())
    assert (bytes_at(direct.spec, 1) > 0) == keeps  # zero is never silent


@pytest.mark.evidence
@pytest.mark.parametrize("name", sorted(collected()))
def test_config(name: str, tmp_path: Path, capsys: Any) -> None:
    """Every config: imported and the same, or truly refused with the file and the place."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(collected()[name], indent=2))
    if hf_id(name) in REFUSED:
        assert main(["import", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert f"{path}:" in captured.err
        return
    check_round_trip(path, tmp_path, capsys)


@pytest.mark.parametrize("name", sorted(gguf_models()))
def test_gguf(name: str, tmp_path: Path, capsys: Any) -> None:
    """Every metadata set, written out as a GGUF file: imported and the same."""
    model = gguf_models()[name]
    path = write_truth_model(tmp_path / f"{name}.gguf", model["arch"], model["gguf"])
    check_round_trip(path, tmp_path, capsys)


@cache
def catalogue() -> dict[str, ModelSpec]:
    """Spec by every Hugging Face id that it answers to."""
    found = {}
    for entry in Catalogue([]).entries():
        spec = entry.spec()
        found.update({name.lower(): spec for name in spec.hf_ids})
    return found


@pytest.mark.evidence
def test_catalogue_and_importer() -> None:
    """Where both know a model they agree to the byte, at three contexts, drafts included."""
    compared = 0
    for name, config in collected().items():
        spec = catalogue().get(hf_id(name).lower())
        if spec is None or hf_id(name) in REFUSED or name in class_defaults():
            continue
        found = import_config(config).spec
        compared += 1
        if hf_id(name) in OTHER_STATES:
            continue
        draft = hf_id(name) not in OTHER_DRAFTS
        for ctx in contexts(spec):
            expected = bytes_at(spec, ctx, with_draft=draft)
            assert bytes_at(found, ctx, with_draft=draft) == expected, (name, ctx)
    assert compared > 350


@pytest.mark.evidence
def test_quantised_checkpoints_have_unknown_weights() -> None:
    """Without files, no quantised checkpoint is taken for its parameters in bfloat16."""
    checked = 0
    for name, config in collected().items():
        spec = catalogue().get(hf_id(name).lower())
        if spec is None or import_config(config).spec.quant_method is None:
            continue
        checked += 1
        assert weights_of(spec, "spec.yaml", hf_id=hf_id(name)) is None, name
    assert checked > 40


# -- the figures of the task ----------------------------------------------------------------

GEMMA_TEXT = {
    "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "model_type": "gemma3_text",
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
    "query_pre_attn_scalar": 168, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024,
}  # fmt: skip
FALCON_7B = {
    "model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 4544,
    "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True,
    "new_decoder_architecture": False, "parallel_attn": True, "alibi": False, "bias": False,
    "torch_dtype": "bfloat16", "vocab_size": 65024,
}  # fmt: skip


def logical_bytes(config: dict[str, Any], ctx: str, folder: Path, capsys: Any) -> int:
    """What `kvplan size CONFIG --json` says, and the spec of `kvplan import CONFIG` too."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    assert main(["import", str(path), "-o", str(folder / "spec.yaml")]) == 0
    sizes = []
    for model in (path, folder / "spec.yaml"):
        assert main(["size", str(model), "--ctx", ctx, "--dtype", "bf16", "--json"]) == 0
        sizes.append(json.loads(capsys.readouterr().out)["results"][0]["logical"]["bytes"])
    assert sizes[0] == sizes[1]
    return int(sizes[0])


@pytest.mark.parametrize("listed", [False, True])
def test_gemma_3_27b(listed: bool, tmp_path: Path, capsys: Any) -> None:
    """As published (the pattern is the class's) and saved again with its layer types.

    2 x 16 heads x 128 x 2 bytes = 8,192 a token and layer; 10 full layers of 131,072 tokens and 52
    windows of 1,024: (10 x 131,072 + 52 x 1,024) x 8,192 = 11,173,625,856.
    """
    text = dict(GEMMA_TEXT)
    if listed:
        text["layer_types"] = [
            "full_attention" if index % 6 == 5 else "sliding_attention" for index in range(62)
        ]
    config = {"model_type": "gemma3", "text_config": text, "torch_dtype": "bfloat16"}
    assert logical_bytes(config, "131072", tmp_path, capsys) == 11_173_625_856


def test_falcon_7b(tmp_path: Path, capsys: Any) -> None:
    """`multi_query` and no number of KV heads: 2 x 1 x 64 x 2 bytes x 32 layers x 2,048 tokens."""
    assert logical_bytes(FALCON_7B, "2048", tmp_path, capsys) == 16_777_216


def test_vision_keys_shape_no_cache(tmp_path: Path, capsys: Any) -> None:
    """Keys of a picture tower in a text config (Hunyuan A13B) are no reason to refuse."""
    plain = logical_bytes(llama(), "4096", tmp_path, capsys)
    seeing = llama(anyres_pooling_size=2, pool_type="last", anyres_vit_max_image_size=None)
    assert logical_bytes(seeing, "4096", tmp_path, capsys) == plain


def test_refusal_is_no_traceback(tmp_path: Path) -> None:
    """A file that is no model at all is refused as such."""
    for content in ("[]", "{", "{}", '{"model_type": []}', '{"text_config": {"text_config": {}}}'):
        path = tmp_path / "config.json"
        path.write_text(content)
        with pytest.raises(ImportRefused):
            import_config(str(path))
