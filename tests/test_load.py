"""Every way a model can be named, and what happens to a name that nothing answers to."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan.documents.from_yaml import read_yaml
from kvplan.errors import ImportRefused, InputError, SpecError, UnknownModelError
from kvplan.load import STDIN, import_model, load_model
from kvplan.spec.reader import read_spec
from kvplan.spec.writer import write_spec
from tests.importers.config_cases import llama
from tests.importers.gguf_writer import F16, write_gguf

SPEC = """name: tiny
max_context: 4096
dtype: bfloat16
layers: 2
attention: {kv_heads: 2, head_dim: 64}
"""
GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 4,
    "llama.context_length": 2048,
    "llama.embedding_length": 512,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
}
PARAMS = {
    "dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
    "n_kv_heads": 8, "norm_eps": 1e-5, "vocab_size": 32768, "rope_theta": 1e6,
}  # fmt: skip
REVISION = "8cde5ca8380496c9a6cc7ef3a8b46a0372a1d920"


def write_config(folder: Path, **changes: Any) -> Path:
    """A config.json in a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(llama(**changes)))
    return path


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch):
    """Sets what stands on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["llama3-8b", "LLAMA3-8B", "meta-llama/Meta-Llama-3-8B", "Meta-Llama-3-8B"]
)
def test_catalogue(name: str) -> None:
    """Name, Hugging Face id, with and without organisation, in any case."""
    found = load_model(name)
    assert found.spec.name == "llama3-8b"
    assert not found.warnings
    by_id = "meta" in name.lower()
    assert found.hf_id == ("meta-llama/Meta-Llama-3-8B" if by_id else None)


def test_alias() -> None:
    """A spec answers to its aliases."""
    spec = load_model("llama3-8b").spec
    assert spec.aliases
    assert all(load_model(alias).spec == spec for alias in spec.aliases)


def test_name_that_is_also_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare word is a name first; `./` or a slash behind it makes it a path."""
    write_config(tmp_path / "llama3-8b", num_hidden_layers=3)
    monkeypatch.chdir(tmp_path)
    assert len(load_model("llama3-8b").spec.layers) == 32
    assert len(load_model("./llama3-8b").spec.layers) == 3
    assert len(load_model("llama3-8b/").spec.layers) == 3


def test_folder_without_a_name_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare word that no spec answers to may be a folder or a file here."""
    write_config(tmp_path / "mine", num_hidden_layers=3)
    (tmp_path / "spec").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    assert len(load_model("mine").spec.layers) == 3
    assert load_model("spec").spec.name == "tiny"


def test_folder_that_looks_like_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder here goes before an id of the same form: it was put there."""
    write_config(tmp_path / "meta-llama" / "Meta-Llama-3-8B", num_hidden_layers=3)
    monkeypatch.chdir(tmp_path)
    assert len(load_model("meta-llama/Meta-Llama-3-8B").spec.layers) == 3


def test_unknown_names_its_neighbours() -> None:
    """A near miss is answered with the closest names."""
    with pytest.raises(UnknownModelError) as refused:
        load_model("lama3-8b")
    assert "llama3-8b" in refused.value.candidates
    assert "did you mean" in (refused.value.hint or "")
    assert "--allow-network" not in (refused.value.hint or "")


def test_unknown_id_tells_of_the_network() -> None:
    """A Hugging Face id that is not here may be on the Hub, which is only asked when allowed."""
    with pytest.raises(UnknownModelError) as refused:
        load_model("nobody/no-such-model-anywhere")
    assert "--allow-network" in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["", " ", "a/b/c", "../..", "x\0y", "org/\0", "a" * 5000, "org/"])
def test_odd_names(name: str) -> None:
    """Names of any form are answered with an error that says so."""
    with pytest.raises((UnknownModelError, InputError)):
        load_model(name)
    with pytest.raises((UnknownModelError, InputError)):
        import_model(name)


# -- paths ----------------------------------------------------------------------------------


def test_spec_file(tmp_path: Path) -> None:
    """A spec, by a path with or without an ending."""
    for name in ("tiny.yaml", "tiny.YML", "tiny"):
        path = tmp_path / name
        path.write_text(SPEC)
        found = load_model(str(path))
        assert found.spec.name == "tiny"
        assert found.origin == str(path)


def test_config_and_its_folder(tmp_path: Path) -> None:
    """A config.json, its folder, and a config under another name, are the same model."""
    path = write_config(tmp_path / "My-Model")
    other = tmp_path / "My-Model" / "other.json"
    other.write_bytes(path.read_bytes())
    by_file, by_folder = load_model(str(path)), load_model(str(path.parent))
    assert by_file.spec == by_folder.spec
    assert by_file.spec.name == "my-model"
    assert load_model(str(other)).spec.layers == by_file.spec.layers
    assert (by_file.origin, by_folder.origin) == (str(path), str(path.parent))


def test_params_folder(tmp_path: Path) -> None:
    """Mistral's params.json; config.json goes first where both are there."""
    (tmp_path / "params.json").write_text(json.dumps(PARAMS))
    spec = load_model(str(tmp_path)).spec
    assert (len(spec.layers), spec.heads) == (32, 32)
    write_config(tmp_path, num_hidden_layers=5)
    assert len(load_model(str(tmp_path)).spec.layers) == 5


def test_gguf(tmp_path: Path) -> None:
    """A GGUF file by its path, whatever its name ends in, and by a folder that holds only it."""
    path = write_gguf(tmp_path / "tiny.gguf", GGUF)
    blob = tmp_path / "blobs" / "sha256-0123"
    blob.parent.mkdir()
    blob.write_bytes(path.read_bytes())
    for name in (path, blob, tmp_path):
        found = load_model(str(name))
        assert len(found.spec.layers) == 4
    assert load_model(str(tmp_path)).origin == str(path)


def test_folder_of_a_split_gguf(tmp_path: Path) -> None:
    """The parts of one model are one model, and a projector beside them is none."""
    for part in (1, 2):
        split = {**GGUF, "split.count": 2, "split.no": part - 1}
        write_gguf(tmp_path / f"tiny-0000{part}-of-00002.gguf", split, [(f"t{part}", (64, 8), F16)])
    write_gguf(tmp_path / "mmproj-tiny-f16.gguf", {"general.architecture": "clip"})
    found = load_model(str(tmp_path))
    assert found.origin.endswith("tiny-00001-of-00002.gguf")


def test_folder_of_several_ggufs(tmp_path: Path) -> None:
    """Several models, or quantisations of one, are the user's choice."""
    write_gguf(tmp_path / "a-Q4_0.gguf", GGUF)
    write_gguf(tmp_path / "a-Q8_0.gguf", GGUF)
    with pytest.raises(InputError) as refused:
        load_model(str(tmp_path))
    assert "2 GGUF models" in refused.value.message
    assert refused.value.hint == "name one of them: a-Q4_0.gguf, a-Q8_0.gguf"
    write_config(tmp_path, num_hidden_layers=7)
    assert len(load_model(str(tmp_path)).spec.layers) == 7


def test_empty_folder(tmp_path: Path) -> None:
    """A folder without a model says what it lacks."""
    with pytest.raises(InputError, match=r"no config\.json, no params\.json and no \.gguf"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", ["no.yaml", "no.json", "no.gguf", "./no", "no/config.json"])
def test_missing_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written like a path and does not exist is named as a file, not as a model."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        load_model(name)
    assert name in str(refused.value)
    with pytest.raises(InputError) as refused:
        import_model(name)
    assert name in str(refused.value)


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder, for whoever calls without a shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_config(tmp_path / "m")
    (tmp_path / "tiny.yaml").write_text(SPEC)
    assert load_model("~/m").origin == str(tmp_path / "m")
    assert load_model("~/m/config.json").spec.layers
    assert load_model("~/tiny.yaml").spec.name == "tiny"
    assert import_model("~/m")[1] == str(tmp_path / "m")


# -- standard input -------------------------------------------------------------------------


def test_stdin_spec(stdin: Any) -> None:
    """A spec on standard input."""
    stdin(SPEC.encode())
    found = load_model("-")
    assert (found.spec.name, found.origin) == ("tiny", STDIN)


@pytest.mark.parametrize("start", [b"", b"\n\n  ", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n\t"])
def test_stdin_config(stdin: Any, start: bytes) -> None:
    """A config on standard input, with whatever may stand before its brace."""
    text = start + json.dumps(llama()).encode()
    if b"\xef\xbb\xbf\r" in start:  # a byte order mark, then blanks
        text = text.replace(b"\r\n\t", b" ")
    stdin(text)
    assert len(load_model("-").spec.layers) == 32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"GGUF\x03\x00\x00\x00\xff\xfe", "is not text"),
        (b"\xff\xfe{\x00}\x00", "is not text"),
        (b"\x00\x00\x00", "is not text"),
        (b"{", "is not valid JSON"),
        (b"{}", "num_attention_heads is missing|num_hidden_layers is missing"),
        (b"[1, 2]", ""),
        (b"hello", ""),
        (b"name: x", ""),
    ],
)
def test_stdin_garbage(stdin: Any, data: bytes, message: str) -> None:
    """What is no model on standard input is refused, with its place."""
    for read in (load_model, import_model):
        stdin(data)
        with pytest.raises(InputError) as refused:
            read("-")
        assert read is import_model or re.search(message, refused.value.message)
        assert str(refused.value).startswith(STDIN)


BRACES = "{name: tiny, dtype: bfloat16, layers: 2, attention: {kv_heads: 2, head_dim: 64}}"
AS_JSON = {
    "name": "tiny", "dtype": "bfloat16", "layers": ["own", "own"],
    "kinds": {"own": {"kind": "full", "kv_heads": 2, "head_dim": 64}},
}  # fmt: skip


@pytest.mark.parametrize("text", [BRACES, f"# mine\n{BRACES}", json.dumps(AS_JSON, indent=1)])
def test_a_spec_in_braces(text: str, tmp_path: Path, stdin: Any) -> None:
    """YAML may be written so, and JSON is YAML: the keys decide, whatever the place."""
    for name in ("spec.yaml", "SPEC.YML", "spec"):
        (tmp_path / name).write_text(text)
        assert len(load_model(str(tmp_path / name)).spec.layers) == 2
    stdin(text.encode())
    assert load_model("-").spec.name == "tiny"


def test_a_yaml_file_is_no_config(tmp_path: Path) -> None:
    """What its name says it is; the error tells where a config belongs. Elsewhere it is one."""
    text = json.dumps(llama())
    (tmp_path / "model.yaml").write_text(text)
    with pytest.raises(SpecError, match=r"it looks like a config\.json: as a \.json file"):
        load_model(str(tmp_path / "model.yaml"))
    (tmp_path / "model").write_text(text)
    assert load_model(str(tmp_path / "model")).spec.model_type == "llama"


@pytest.mark.parametrize("more", [{"layers": 3}, {"attention": {"layers": 1}}, {"notes": "]}"}])
def test_a_config_with_some_word_of_a_spec(more: dict[str, Any], stdin: Any) -> None:
    """It takes both `layers` and what they are to make a spec."""
    stdin(json.dumps({"num_hidden_layers": 2, **more}).encode())
    with pytest.raises(ImportRefused):
        load_model("-")


def test_stdin_error_has_a_place(stdin: Any) -> None:
    """Line and column count for standard input too."""
    stdin(json.dumps(llama(num_key_value_heads=5), indent=1).encode())
    with pytest.raises(InputError) as refused:
        load_model("-")
    assert refused.value.where == f"{STDIN}:9:2"  # architectures takes three lines


# -- the local Hugging Face cache -----------------------------------------------------------


def put_snapshot(
    hub: Path, repo: str, revision: str = REVISION, *, main: bool = True, **changes: Any
) -> Path:
    """A snapshot as the cache holds it: its config.json is a link to a blob. Returns its folder."""
    root = hub / f"models--{repo.replace('/', '--')}"
    folder = root / "snapshots" / revision
    folder.mkdir(parents=True)
    (root / "blobs").mkdir(exist_ok=True)
    blob = root / "blobs" / f"{revision[:8]}00"
    blob.write_text(json.dumps(llama(**changes)))
    (folder / "config.json").symlink_to(os.path.relpath(blob, folder))
    if main:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / "main").write_text(revision)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_cached_id(hub: Path) -> None:
    """An id is found in the cache; the model has its name and its id."""
    folder = put_snapshot(hub, "Someone/My-Model", num_hidden_layers=6)
    found = load_model("Someone/My-Model")
    assert found.spec.name == "my-model"
    assert found.spec.hf_ids == ("Someone/My-Model",)
    assert len(found.spec.layers) == 6
    assert found.origin == str(folder)
    imported, place = import_model("Someone/My-Model")
    assert (imported.spec, place) == (found.spec, str(folder))
    text = write_spec(imported.spec, comments=imported.comments())
    assert read_spec(read_yaml(text, "spec.yaml")) == imported.spec


@pytest.mark.parametrize(
    ("variable", "value", "below"),
    [
        ("HF_HUB_CACHE", "{tmp}/a", "a"),
        ("HUGGINGFACE_HUB_CACHE", "{tmp}/b", "b"),
        ("HF_HOME", "{tmp}/c", "c/hub"),
        ("XDG_CACHE_HOME", "{tmp}/d", "d/huggingface/hub"),
        ("HOME", "{tmp}/e", "e/.cache/huggingface/hub"),
        ("HF_HOME", "~/f", "f/hub"),
        ("HF_HUB_CACHE", "$SCRATCH/g", "g"),
    ],
)
def test_where_the_cache_is(
    variable: str, value: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment moves the cache as it moves the library's."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    monkeypatch.setenv(variable, value.format(tmp=tmp_path))
    put_snapshot(tmp_path / below, "org/model", num_hidden_layers=9)
    assert len(load_model("org/model").spec.layers) == 9


def test_the_nearer_variable_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_CACHE goes before HF_HOME; an empty variable counts as unset."""
    put_snapshot(tmp_path / "home" / "hub", "org/model", num_hidden_layers=3)
    put_snapshot(tmp_path / "cache", "org/model", num_hidden_layers=4)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", "")
    assert len(load_model("org/model").spec.layers) == 3
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert len(load_model("org/model").spec.layers) == 4


def test_main_goes_before_newer(hub: Path) -> None:
    """`refs/main` names the revision, whatever was fetched later."""
    put_snapshot(hub, "org/model", "a" * 40, num_hidden_layers=3)
    newer = put_snapshot(hub, "org/model", "b" * 40, main=False, num_hidden_layers=4)
    os.utime(newer, (4e9, 4e9))
    assert len(load_model("org/model").spec.layers) == 3


@pytest.mark.parametrize(
    "ref", [None, b"", b"c" * 40, b"../../..", b"\xff\xfe", b"/etc", b"a b\nc", b"x" * 10_000]
)
def test_broken_refs(hub: Path, ref: bytes | None) -> None:
    """Without a usable `refs/main` the newest snapshot counts."""
    older = put_snapshot(hub, "org/model", "a" * 40, main=False, num_hidden_layers=3)
    newer = put_snapshot(hub, "org/model", "b" * 40, main=False, num_hidden_layers=4)
    os.utime(older, (1e9, 1e9))
    os.utime(newer, (2e9, 2e9))
    if ref is not None:
        refs = hub / "models--org--model" / "refs"
        refs.mkdir()
        (refs / "main").write_bytes(ref)
    assert len(load_model("org/model").spec.layers) == 4


def test_snapshots_without_a_config(hub: Path) -> None:
    """A snapshot that holds no config, or a link to a blob that is gone, is passed over."""
    put_snapshot(hub, "org/model", "a" * 40, main=False, num_hidden_layers=3)
    gone = put_snapshot(hub, "org/model", "b" * 40)
    (hub / "models--org--model" / "blobs" / "bbbbbbbb00").unlink()
    os.utime(gone, (4e9, 4e9))
    snapshots = hub / "models--org--model" / "snapshots"
    (snapshots / ("c" * 40)).mkdir()
    (snapshots / ("d" * 40)).symlink_to("nowhere")
    (snapshots / "file").write_text("")
    assert len(load_model("org/model").spec.layers) == 3


def test_cache_without_any_config(hub: Path) -> None:
    """A cached repository without a config is as good as none."""
    (hub / "models--org--model" / "snapshots" / REVISION).mkdir(parents=True)
    with pytest.raises(UnknownModelError):
        load_model("org/model")
    with pytest.raises(InputError):
        import_model("org/model")


def test_cached_gguf(hub: Path) -> None:
    """A repository of GGUF files: the one model it holds; of several, the user names a file."""
    folder = hub / "models--org--model-GGUF" / "snapshots" / REVISION
    folder.mkdir(parents=True)
    write_gguf(folder / "model-Q4_0.gguf", GGUF)
    found = load_model("org/model-GGUF")
    assert (found.spec.name, len(found.spec.layers)) == ("model-gguf", 4)
    assert found.origin == str(folder / "model-Q4_0.gguf")
    write_gguf(folder / "model-Q8_0.gguf", GGUF)
    with pytest.raises(InputError, match="2 GGUF models") as refused:
        load_model("org/model-GGUF")
    assert str(folder) in str(refused.value)


def test_catalogue_goes_before_the_cache(hub: Path) -> None:
    """An id that the catalogue knows is the catalogue's, the same on every machine.

    `import` reads what is cached.
    """
    put_snapshot(hub, "meta-llama/Meta-Llama-3-8B", num_hidden_layers=3)
    assert len(load_model("meta-llama/Meta-Llama-3-8B").spec.layers) == 32
    assert len(import_model("meta-llama/Meta-Llama-3-8B")[0].spec.layers) == 3


def test_cache_is_read_as_data(hub: Path) -> None:
    """A model's own code is neither run nor looked at."""
    folder = put_snapshot(
        hub, "org/model", auto_map={"AutoConfig": "configuration_evil.EvilConfig"}
    )
    (folder / "configuration_evil.py").write_text("raise SystemExit('was run')")
    assert len(load_model("org/model").spec.layers) == 32
    assert "configuration_evil" not in sys.modules


def test_quantised_checkpoint_in_the_cache(hub: Path) -> None:
    """hf_quant_config.json beside the config says what the cache's format is."""
    folder = put_snapshot(hub, "org/model-FP8")
    quant = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(quant))
    assert load_model("org/model-FP8").spec.kv_dtype == "fp8_e4m3"


# -- what is no import ----------------------------------------------------------------------


def test_import_of_a_spec(tmp_path: Path) -> None:
    """A spec needs no import."""
    (tmp_path / "tiny.yaml").write_text(SPEC)
    with pytest.raises(InputError, match="a spec already"):
        import_model(str(tmp_path / "tiny.yaml"))


def test_import_of_a_name() -> None:
    """A name of the catalogue is no file, and the error says how to see its spec."""
    with pytest.raises(InputError) as refused:
        import_model("llama3-8b")
    assert "kvplan models" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "text", ["apiVersion: apps/v1\nkind: Deployment\n", "services:\n  a: {}\n"]
)
def test_a_deployment_file_is_no_model(text, tmp_path):
    """It says so, instead of listing every key that a spec has."""
    path = tmp_path / "deploy.yaml"
    path.write_text(text)

    with pytest.raises(InputError, match="is a deployment file, not a model"):
        load_model(str(path))
