"""`kvplan import`: a spec with the origin of each fact behind it, or a refusal that helps."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.load import import_model, load_model
from kvplan.spec.labels import attention_label
from tests.importers.config_cases import llama, unknown
from tests.importers.gguf_writer import F16, write_gguf

GEMMA = {
    "model_type": "gemma3_text", "num_hidden_layers": 12, "hidden_size": 640,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16", "vocab_size": 262144,
}  # fmt: skip
GGUF = {
    "general.architecture": "llama",
    "general.name": "Tiny Llama",
    "llama.block_count": 4,
    "llama.context_length": 2048,
    "llama.embedding_length": 512,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config.json of Llama 3 8B in a folder of its own."""
    folder = tmp_path / "some-llama"
    folder.mkdir()
    path = folder / "config.json"
    path.write_text(json.dumps(llama(), indent=2))
    return path


def run(capsys: Any, *arguments: str, code: int = 0) -> tuple[str, str]:
    """stdout and stderr of `kvplan import`."""
    assert main(["import", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def back(text: str, folder: Path) -> Any:
    """The spec of a text that was printed."""
    path = folder / "back.yaml"
    path.write_text(text)
    return load_model(str(path)).spec


def line(text: str, key: str) -> str:
    """The line of a key."""
    (found,) = [line for line in text.splitlines() if line.strip().startswith(f"{key}:")]
    return found


def test_lines_with_origins(config: Path, capsys: Any, tmp_path: Path) -> None:
    """Every line says which key, at which line of the file on top, or which rule it comes from."""
    text, err = run(capsys, str(config))
    assert err == ""
    assert text.splitlines()[0] == f"# gqa, imported by kvplan from {config}"
    # Line 1 "{", 2 to 4 architectures, 5 model_type, 6 hidden_size, 7 layers, 8 heads, ...
    assert "# line 7 num_hidden_layers" in line(text, "layers")
    assert "# line 10 max_position_embeddings" in line(text, "max_context")
    assert "line 9 num_key_value_heads" in line(text, "attention")
    assert "derived: hidden_size 4096 / 32 heads" in line(text, "attention")
    assert "# line 11 torch_dtype" in line(text, "dtype")
    spec = back(text, tmp_path)
    assert spec == load_model(str(config)).spec
    assert (len(spec.layers), spec.max_context, spec.name) == (32, 8192, "some-llama")


def test_class_defaults_are_named(tmp_path: Path, capsys: Any) -> None:
    """What the file leaves to the model's class is marked as such: Gemma 3's one in six."""
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    text, _ = run(capsys, str(tmp_path))
    assert "class default (transformers" in text
    assert "sliding_window_pattern" in text
    spec = back(text, tmp_path)
    assert spec == load_model(str(tmp_path)).spec
    assert [index for index, name in enumerate(spec.layers) if name == "full"] == [5, 11]


def test_folder_and_file_agree(config: Path, capsys: Any) -> None:
    """A folder gives the same lines as the config in it."""
    by_file, _ = run(capsys, str(config))
    by_folder, _ = run(capsys, str(config.parent))
    assert by_file == by_folder


def test_another_files_origins_keep_its_name(tmp_path: Path, capsys: Any) -> None:
    """Only the file on top needs no name: the cache's format stands in a file beside it."""
    (tmp_path / "config.json").write_text(json.dumps(llama(), indent=2))
    quantisation = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantisation, indent=2))
    text, _ = run(capsys, str(tmp_path))
    assert "# hf_quant_config.json " in line(text, "kv_dtype")
    assert " config.json:" not in text


def test_gguf(tmp_path: Path, capsys: Any) -> None:
    """A GGUF file's keys are the origins; the folder that holds only it gives the same."""
    path = write_gguf(tmp_path / "tiny.gguf", GGUF, [("t", (32,), F16)])
    text, _ = run(capsys, str(path))
    assert "llama.context_length" in line(text, "max_context")
    assert "llama.attention.head_count_kv" in line(text, "attention")
    by_folder, _ = run(capsys, str(tmp_path))
    assert text.splitlines()[1:] == by_folder.splitlines()[1:]
    assert back(text, tmp_path) == load_model(str(path)).spec


def test_output_file(config: Path, tmp_path: Path, capsys: Any) -> None:
    """`-o` writes what would have been printed, and prints nothing."""
    text, _ = run(capsys, str(config))
    target = tmp_path / "spec.yaml"
    target.write_text("old")
    assert run(capsys, str(config), "-o", str(target)) == ("", "")
    assert target.read_text() == text
    assert load_model(str(target)).spec == load_model(str(config)).spec
    assert sorted(os.listdir(tmp_path)) == ["some-llama", "spec.yaml"]


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    """A config on standard input."""
    data = json.dumps(llama()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    text, _ = run(capsys, "-")
    assert text.splitlines()[0] == "# gqa, imported by kvplan from <stdin>"
    assert len(back(text, tmp_path).layers) == 32


def test_cached_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A Hugging Face id of the local cache; the spec answers to the id from then on."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--org--My-Llama" / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(llama()))
    specs = tmp_path / "specs"
    specs.mkdir()
    run(capsys, "org/My-Llama", "-o", str(specs / "mine.yaml"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    found = load_model("org/My-Llama", specs=[str(specs)]).spec
    assert (found.name, found.hf_ids) == ("my-llama", ("org/My-Llama",))


def test_warnings(tmp_path: Path, capsys: Any) -> None:
    """An assumption goes to stderr, and into the spec as a comment on top."""
    (tmp_path / "config.json").write_text(json.dumps(unknown()))
    text, err = run(capsys, str(tmp_path))
    assert err.startswith("warning: model_type 'zephyrine' is not known")
    assert err.rstrip().endswith("[assumed-plain-attention]")
    assert text.splitlines()[1].startswith("# assumed-plain-attention: model_type 'zephyrine'")
    back(text, tmp_path)


def test_hostile_texts(tmp_path: Path, capsys: Any) -> None:
    """Control characters of a file reach neither the terminal nor the structure of the spec."""
    evil = "Llama\x1b[2J\nlayers: 99"
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(llama(architectures=[evil])))
    text, _ = run(capsys, str(folder))
    assert "\x1b" not in text
    spec = back(text, tmp_path)
    assert spec.architecture == evil
    assert len(spec.layers) == 32
    assert spec.name == "a-[31m-b"


# -- refusals -------------------------------------------------------------------------------


def test_refusal_names_place_key_value_and_lines(tmp_path: Path, capsys: Any) -> None:
    """file:line:column, the key, its value, and what to write in a spec; nothing on stdout."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(unknown(summary_every=64), indent=2))
    out, err = run(capsys, str(path), code=2)
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"kvplan import: {path}:14:3: key 'summary_every' (64)")
    assert "zephyrine" in first
    assert second.startswith("hint: write a spec with the kinds of layers as they are")
    assert "kinds: {full: {kind: full, kv_heads: 8, head_dim: 128}" in second


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 5}, ":9:3: 5 KV heads do not divide 32"),
        ({"num_hidden_layers": 0}, ":7:3: num_hidden_layers is 0"),
        ({"num_hidden_layers": None}, ":7:3: num_hidden_layers is null"),
        ({"num_hidden_layers": ...}, "num_hidden_layers is missing"),
        ({"n_layer": 60}, "num_hidden_layers 32, n_layer 60"),
        ({"num_attention_heads": "32"}, ":8:3: num_attention_heads is '32'"),
    ],
)
def test_facts_that_cannot_be(
    tmp_path: Path, capsys: Any, changes: dict[str, Any], words: str
) -> None:
    """Null, zero, missing and contradicting facts: refused at their place, never repaired."""
    path = tmp_path / "config.json"
    config = unknown(**changes) if changes.get("num_hidden_layers") is ... else llama(**changes)
    path.write_text(json.dumps(config, indent=2))
    out, err = run(capsys, str(path), code=2)
    assert out == ""
    assert words in err
    assert str(path) in err
    assert len(err.splitlines()) <= 3


def test_nothing_is_half_written(tmp_path: Path, capsys: Any) -> None:
    """After a refusal, or where nothing can be written, what was there is still there."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(unknown(summary_every=64)))
    target = tmp_path / "spec.yaml"
    target.write_text("name: kept")
    run(capsys, str(path), "-o", str(target), code=2)
    assert target.read_text() == "name: kept"
    path.write_text(json.dumps(llama()))
    _, err = run(capsys, str(path), "-o", str(tmp_path / "no" / "spec.yaml"), code=2)
    assert "no/spec.yaml" in err
    (tmp_path / "folder").mkdir()
    run(capsys, str(path), "-o", str(tmp_path / "folder"), code=2)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "folder", "spec.yaml"]


@pytest.mark.parametrize("name", ["llama3-8b", "org/not-here", "no.json", "no/config.json", "no"])
def test_nothing_there(name: str, capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A name that is no file says so in at most three lines."""
    monkeypatch.chdir(tmp_path)
    out, err = run(capsys, name, code=2)
    assert out == ""
    assert name in err
    assert 1 <= len(err.splitlines()) <= 3


def test_folder_whose_name_is_no_text(tmp_path: Path, capsys: Any) -> None:
    """A name in another encoding than UTF-8 is written with `?`, and reads back."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("the file system holds UTF-8 names only")
    name = os.fsdecode(folder)
    (Path(name) / "config.json").write_text(json.dumps(llama()))
    run(capsys, name, "-o", str(tmp_path / "spec.yaml"))
    assert load_model(str(tmp_path / "spec.yaml")).spec == load_model(name).spec


def test_label_on_top_is_the_models(tmp_path: Path, capsys: Any) -> None:
    """The first line names the attention as `kvplan models` does."""
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    text, _ = run(capsys, str(tmp_path))
    label = attention_label(import_model(str(tmp_path))[0].spec)
    assert text.startswith(f"# {label}, imported by kvplan from ")
