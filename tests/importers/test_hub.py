"""The Hub, played by a module that stands in for huggingface_hub: no test uses a network."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.cli import main
from kvplan.errors import InputError, MissingDependencyError, UnknownModelError
from kvplan.importers.hub import fetch_snapshot, find_snapshot, is_repo_id
from kvplan.load import import_model, load_model
from tests.importers.config_cases import llama

REVISION = "0123456789abcdef0123456789abcdef01234567"

# The library's errors as their classes stand to each other (huggingface_hub 1.x and 2.x); older
# versions keep them in other modules, so only the names count.
EntryNotFoundError = type("EntryNotFoundError", (Exception,), {})
HfHubHTTPError = type("HfHubHTTPError", (OSError,), {})
RemoteEntryNotFoundError = type(
    "RemoteEntryNotFoundError", (HfHubHTTPError, EntryNotFoundError), {}
)
LocalEntryNotFoundError = type(
    "LocalEntryNotFoundError", (FileNotFoundError, EntryNotFoundError), {}
)
OfflineModeIsEnabled = type("OfflineModeIsEnabled", (ConnectionError,), {})
RepositoryNotFoundError = type("RepositoryNotFoundError", (HfHubHTTPError,), {})
GatedRepoError = type("GatedRepoError", (RepositoryNotFoundError,), {})
RevisionNotFoundError = type("RevisionNotFoundError", (HfHubHTTPError,), {})
HFValidationError = type("HFValidationError", (ValueError,), {})
NotASafetensorsRepoError = type("NotASafetensorsRepoError", (Exception,), {})
ConnectTimeout = type("ConnectTimeout", (Exception,), {})  # httpx: no OSError


class FakeHub:
    """A Hub of named files, which remembers what it was asked for."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.files: dict[str, Any] = {}
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.headers: Any = NotASafetensorsRepoError("no safetensors")

    def hf_hub_download(self, repo_id: str, filename: str, **options: Any) -> str:
        """One file, put into the cache."""
        assert not options
        self.asked.append(filename)
        if self.error is not None:
            raise self.error
        if filename not in self.files:
            raise RemoteEntryNotFoundError(f"404 Client Error\nno {filename}")
        folder = self.cache / f"models--{repo_id.replace('/', '--')}" / "snapshots" / REVISION
        folder.mkdir(parents=True, exist_ok=True)
        (folder / filename).write_text(json.dumps(self.files[filename]))
        return str(folder / filename)

    def get_safetensors_metadata(self, repo_id: str, **options: Any) -> Any:
        """The headers, as the library hands them out."""
        assert not options
        self.asked.append("headers")
        if isinstance(self.headers, Exception):
            raise self.headers
        tensor = lambda entry: SimpleNamespace(**entry)  # noqa: E731
        return SimpleNamespace(
            files_metadata={
                file: SimpleNamespace(
                    tensors={name: tensor(entry) for name, entry in header.items()}
                )
                for file, header in self.headers.items()
            }
        )


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The library replaced, its cache empty."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    fake = FakeHub(tmp_path)
    module = types.ModuleType("huggingface_hub")
    module.hf_hub_download = fake.hf_hub_download  # type: ignore[attr-defined]
    module.get_safetensors_metadata = fake.get_safetensors_metadata  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return fake


def test_never_without_permission(hub: FakeHub) -> None:
    """An id that is not here is not looked up unless the user says so."""
    hub.files = {"config.json": llama()}
    with pytest.raises(UnknownModelError):
        load_model("org/model")
    with pytest.raises(InputError):
        import_model("org/model")
    assert hub.asked == []


def test_config(hub: FakeHub) -> None:
    """The config is fetched into the cache; the next time nothing is asked."""
    hub.files = {"config.json": llama(num_hidden_layers=6)}
    found = load_model("org/Some-Model", allow_network=True)
    assert (found.spec.name, len(found.spec.layers)) == ("some-model", 6)
    assert found.spec.hf_ids == ("org/Some-Model",)
    asked = list(hub.asked)
    assert load_model("org/Some-Model", allow_network=True).spec == found.spec
    assert hub.asked == asked


def test_only_small_files(hub: FakeHub) -> None:
    """Configs and the index of the weights, nothing else: no weights, no code of the model."""
    code = {"AutoConfig": "configuration_x.XConfig", "AutoModelForCausalLM": "modeling_x.X"}
    hub.files = {
        "config.json": llama(auto_map=code),
        "hf_quant_config.json": {"quantization": {"kv_cache_quant_algo": "FP8"}},
        "model.safetensors.index.json": {"metadata": {"total_size": 1000}, "weight_map": {}},
        "configuration_x.py": "raise SystemExit",
        "modeling_x.py": "raise SystemExit",
        "model.safetensors": "",
    }
    spec = load_model("org/model", allow_network=True).spec
    assert spec.kv_dtype == "fp8_e4m3"
    assert hub.asked == ["config.json", "hf_quant_config.json", "model.safetensors.index.json"]


def test_params_of_mistral(hub: FakeHub) -> None:
    """Without a config.json, Mistral's params.json is asked for."""
    hub.files = {
        "params.json": {
            "dim": 4096, "n_layers": 3, "head_dim": 128, "n_heads": 32, "n_kv_heads": 8,
            "vocab_size": 32768, "hidden_dim": 14336, "norm_eps": 1e-5,
        }
    }  # fmt: skip
    assert len(load_model("org/model", allow_network=True).spec.layers) == 3
    assert hub.asked[:2] == ["config.json", "params.json"]


def test_neither(hub: FakeHub) -> None:
    """A repository without a config, of GGUF files perhaps, says what to do."""
    with pytest.raises(InputError, match=r"neither of config\.json, params\.json") as refused:
        load_model("org/model-GGUF", allow_network=True)
    assert ".gguf" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (GatedRepoError("401"), InputError, "org/model is gated|hf auth login"),
        (RepositoryNotFoundError("404"), UnknownModelError, "knows no public model|HF_TOKEN"),
        (LocalEntryNotFoundError("offline\nmore"), InputError, "cannot be asked.*offline"),
        (OfflineModeIsEnabled("HF_HUB_OFFLINE is set"), InputError, "HF_HUB_OFFLINE is set"),
        (HfHubHTTPError("503 Server Error\nid: 1"), InputError, "503 Server Error"),
        (RevisionNotFoundError("no main"), InputError, "no main"),
        (ConnectTimeout("timed out"), InputError, "timed out"),
        (HFValidationError("bad id"), InputError, "bad id"),
        (PermissionError(13, "Permission denied"), InputError, "Permission denied"),
        (RuntimeError(), InputError, "RuntimeError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors(
    hub: FakeHub, error: Exception, kind: type[Exception], words: str, capsys: Any
) -> None:
    """Whatever the library raises is one short message, on stderr with exit code 2."""
    hub.error = error
    with pytest.raises(kind) as refused:
        fetch_snapshot("org/model")
    for part in words.split("|"):
        assert all(word in str(refused.value) for word in part.split(".*"))
    assert "id: 1" not in str(refused.value)
    for command in ("size", "import"):
        assert main([command, "org/model", "--allow-network"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert 1 <= len(captured.err.splitlines()) <= 3


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The error holds the line that installs it."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError) as refused:
        load_model("org/model", allow_network=True)
    assert refused.value.hint == 'pip install "kvplan[hub]"'
    assert main(["size", "org/model", "--allow-network"]) == 2
    assert 'pip install "kvplan[hub]"' in capsys.readouterr().err


def test_known_names_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue answers first, network or not."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert load_model("llama3-8b", allow_network=True).spec.name == "llama3-8b"
    with pytest.raises(UnknownModelError):  # no id: nothing to ask the Hub for
        load_model("lama3-8b", allow_network=True)


@pytest.mark.parametrize("text", ["org/model", "Qwen/Qwen2.5-7B", "01-ai/Yi_1.5", "a/b"])
def test_ids(text: str) -> None:
    """ORG/NAME of letters, digits, `-`, `_` and `.`."""
    assert is_repo_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "model", "a/b/c", "/a", "a/", "../x", "a/..", "a/b..c", "a--b/c", "a/b--c", "a/.b", "a/b-",
        "a/b.", "-a/b", "a b/c", "ä/b", "a/b\n", "a/" + "b" * 100, "https://huggingface.co/a/b",
    ],
)  # fmt: skip
def test_no_ids(text: str) -> None:
    """What the library would reject, or what would leave the cache's folder, is no id."""
    assert not is_repo_id(text)


# -- weights --------------------------------------------------------------------------------


def sized(hub: FakeHub, capsys: Any, *options: str) -> dict[str, Any]:
    """The result of `kvplan size org/model --weights --json`."""
    arguments = ["size", "org/model", "--allow-network", "--weights", "--json", "--ctx", "1k"]
    assert main([*arguments, *options]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)["results"][0]
    return result


def test_weights_by_index(hub: FakeHub, capsys: Any) -> None:
    """The index that was fetched states the total; the headers are not asked for."""
    hub.files = {
        "config.json": llama(),
        "model.safetensors.index.json": {
            "metadata": {"total_size": 16_060_522_496},
            "weight_map": {"a": "model-00001-of-00002.safetensors"},
        },
    }
    found = sized(hub, capsys)["weights"]
    assert found["bytes"] == 16_060_522_496
    assert found["by_dtype"] is None
    assert "headers" not in hub.asked


def test_weights_by_headers(hub: FakeHub, capsys: Any) -> None:
    """Without an index, the headers on the Hub: 10 x 4 x 2 bytes, then 16 bytes in FP8."""
    hub.files = {"config.json": llama()}
    hub.headers = {
        "model.safetensors": {
            "a": {"dtype": "BF16", "shape": [10, 4], "data_offsets": (0, 80)},
            "b": {"dtype": "F8_E4M3", "shape": [16], "data_offsets": (80, 96)},
        }
    }
    found = sized(hub, capsys)["weights"]
    assert found["bytes"] == 96
    assert found["by_dtype"] == {"bfloat16": 80, "fp8_e4m3": 16}
    assert "Hub" in found["source"]


def test_headers_only_for_weights(hub: FakeHub) -> None:
    """Without --weights no header is asked for."""
    hub.files = {"config.json": llama()}
    assert main(["size", "org/model", "--allow-network", "--json"]) == 0
    assert "headers" not in hub.asked


def test_no_weights_anywhere(hub: FakeHub, capsys: Any) -> None:
    """A repository without safetensors: unknown, with a warning, never a guess."""
    hub.files = {"config.json": llama()}
    result = sized(hub, capsys)
    assert result["weights"] is None
    assert [warning["id"] for warning in result["warnings"]] == ["weights-unknown"]


@pytest.mark.parametrize(
    "make", [lambda: GatedRepoError("401"), lambda: ConnectTimeout("timed out")]
)
def test_headers_that_cannot_be_had(
    hub: FakeHub, capsys: Any, make: Callable[[], Exception]
) -> None:
    """A Hub that does not answer is an error, because the user asked for its answer."""
    hub.files = {"config.json": llama()}
    hub.headers = make()
    assert main(["size", "org/model", "--allow-network", "--weights"]) == 2
    assert "org/model" in capsys.readouterr().err


def test_weights_of_a_quantised_copy(hub: FakeHub, capsys: Any) -> None:
    """An id of the catalogue: its own headers on the Hub, not the parameters of the shared spec."""
    hub.headers = {
        "model.safetensors": {
            "a": {"dtype": "F8_E4M3", "shape": [16], "data_offsets": (0, 16)},
        }
    }
    command = ["size", "Qwen/Qwen3-8B-FP8", "--weights", "--json", "--allow-network"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)["results"][0]
    assert result["model"]["name"] == "qwen3-8b"
    assert result["weights"]["by_dtype"] == {"fp8_e4m3": 16}
    assert hub.asked == ["headers"]


def test_a_revision_that_is_a_pipe_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would never end; the newest snapshot is taken, as without `refs/main`."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--org--tiny"
    (root / "snapshots" / REVISION).mkdir(parents=True)
    (root / "snapshots" / REVISION / "config.json").write_text(json.dumps(llama()))
    (root / "refs").mkdir()
    os.mkfifo(root / "refs" / "main")
    assert find_snapshot("org/tiny") == str(root / "snapshots" / REVISION)
