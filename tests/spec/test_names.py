"""Names written another way, and the names that come near one that nothing answers to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.cli import main
from kvplan.errors import InputError, UnknownModelError
from kvplan.load import import_model, load_model
from kvplan.plan.models import list_models
from kvplan.spec.names import loosened, nearest


@pytest.mark.parametrize(
    ("name", "loose"),
    [
        ("llama-3-8b", "llama3-8b"),
        (" Llama 3  70B ", "llama3-70b"),
        ("llama3:8b", "llama3-8b"),
        ("llama_3_8b", "llama3-8b"),
        ("Qwen3 30B A3B", "qwen3-30b-a3b"),
        ("gemma-3-27b", "gemma3-27b"),
        ("phi-3.5-mini", "phi3.5-mini"),
        ("llama3-1-8b", "llama3-1-8b"),  # not llama3.1: a dash between digits parts them
    ],
)
def test_what_people_write_one_way_or_another(name: str, loose: str) -> None:
    """Blanks, `_` and `:` are dashes; one between a letter and a digit says nothing."""
    assert loosened(name) == loose


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("llama3:8b", "llama3-8b"),
        ("llama 3 70b", "llama3-70b"),
        ("Qwen3 30B A3B", "qwen3-30b-a3b"),
        ("llama_3_8b", "llama3-8b"),
        ("Gemma 3 27B", "gemma-3-27b"),
        ("gemma3:27b", "gemma-3-27b"),
    ],
)
def test_a_name_written_another_way_is_found(query: str, name: str) -> None:
    """In the catalogue as it is."""
    assert load_model(query, specs=[]).spec.name == name


SPEC = "name: {}\ndtype: bf16\nmax_context: 9\nlayers: 1\nattention: {{kv_heads: 1, head_dim: 8}}\n"


def test_two_models_behind_one_loose_name_are_not_guessed(tmp_path: Path) -> None:
    """Both are named instead."""
    for name in ("my-1b", "my_1b"):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name))

    with pytest.raises(UnknownModelError) as refused:
        load_model("my 1b", specs=[str(tmp_path)])
    assert refused.value.candidates == ("my-1b", "my_1b")
    assert load_model("my_1b", specs=[str(tmp_path)]).spec.name == "my_1b"


def test_an_id_is_not_read_loosely() -> None:
    """Another spelling may be another model of that maker."""
    with pytest.raises(UnknownModelError):
        load_model("meta-llama/Meta_Llama_3_8B", specs=[])


def test_a_folder_goes_before_a_loose_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put there under that very name."""
    (tmp_path / "llama_3_8b").write_text(SPEC.format("mine"))
    monkeypatch.chdir(tmp_path)
    assert load_model("llama_3_8b").spec.name == "mine"


MODELS = [
    ("tinyllama", "tinyllama-1.1b", "TinyLlama/TinyLlama-1.1B"),
    ("llama4-scout", "meta-llama/Llama-4-Scout"),
    ("llama4-maverick", "meta-llama/Llama-4-Maverick"),
    ("llama3.1-70b", "llama3.3-70b-instruct", "llama3.3-70b", "meta-llama/Llama-3.1-70B"),
    ("llama3.2-3b", "meta-llama/Llama-3.2-3B"),
    ("super-49b", "nvidia/Llama-3_3-Super-49B"),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("llama4", ["llama4-maverick", "llama4-scout"]),
        ("Llama 4", ["llama4-maverick", "llama4-scout"]),
        ("llama3.3", ["llama3.3-70b"]),  # the name that begins so, of a model called otherwise
        ("scout", ["llama4-scout"]),
        ("super", ["super-49b"]),
        ("tinylama-1.1b", ["tinyllama-1.1b"]),  # one name per model
        ("meta-llama/llama-4", ["meta-llama/Llama-4-Maverick", "meta-llama/Llama-4-Scout"]),
        ("meta-lama/llama-3.2-3b", ["meta-llama/Llama-3.2-3B"]),
        ("zzz", []),
        ("/", []),
    ],
)
def test_the_nearest_names(query: str, names: list[str]) -> None:
    """What begins with the query, else what holds it, else what is close; one per model."""
    assert nearest(MODELS, query)[: max(len(names), 1)] == names


@pytest.mark.parametrize(
    ("query", "first", "also"),
    [
        ("llama4", "llama4-maverick, llama4-scout?", "--search llama4` lists 2"),
        ("jamba", "jamba-1.5-large, jamba-v0.1?", "--search jamba` lists 2"),
        ("solar-", "solar-10.7b, solar-open-100b, solar-pro-preview-instruct?", "lists 3"),
    ],
)
def test_hints_of_the_catalogue(query: str, first: str, also: str) -> None:
    """The family that was meant stands first, and how to list it behind."""
    with pytest.raises(UnknownModelError) as refused:
        load_model(query, specs=[])
    assert (refused.value.hint or "").startswith(f"did you mean {first}")
    assert also in (refused.value.hint or "")


@pytest.mark.parametrize("text", ["llama 4", "Llama4", "llama-4", "LLAMA_4"])
def test_the_list_is_searched_loosely_too(text: str) -> None:
    """As names are."""
    assert [spec.name for spec in list_models(search=text, specs=[])] == [
        "llama4-maverick", "llama4-scout",
    ]  # fmt: skip


def _cached(hub: Path, repo_id: str) -> None:
    snapshot = hub / f"models--{repo_id.replace('/', '--')}" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")


@pytest.mark.parametrize("name", ["acme/zed-7b", "ACME/ZED-7B", "zed-7b", "Zed-7B"])
def test_a_near_miss_in_the_hugging_face_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache's folders are told apart by case: the id as it stands there is named."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    _cached(tmp_path, "acme/Zed-7B")
    with pytest.raises(UnknownModelError) as refused:
        load_model(name)
    assert (refused.value.hint or "").startswith("the local Hugging Face cache holds acme/Zed-7B")
    assert refused.value.candidates[0] == "acme/Zed-7B"
    with pytest.raises(InputError) as not_imported:
        import_model(name)
    assert "it holds acme/Zed-7B" in (not_imported.value.hint or "")


def test_an_alias_is_answered_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek R1 has the cache of V3; the spec's own name stands beside it."""
    assert main(["size", "deepseek-r1", "--ctx", "1"]) == 0
    assert capsys.readouterr().out.startswith("deepseek-r1 (the cache of deepseek-v3): mla, ")
    assert main(["size", "deepseek-r1", "deepseek-v3", "--ctx", "1"]) == 0
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert [row.split()[0] for row in rows] == ["deepseek-r1", "deepseek-v3"]
    assert main(["size", "deepseek-r1", "--ctx", "1", "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["results"][0]["model"]
    assert (model["name"], model["asked"]) == ("deepseek-v3", "deepseek-r1")


@pytest.mark.parametrize("name", ["deepseek-v3", "DeepSeek V3", "deepseek-ai/DeepSeek-V3"])
def test_a_models_own_name_is_not_repeated(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """However it is written."""
    assert main(["explain", name, "--ctx", "1"]) == 0
    assert capsys.readouterr().out.startswith("deepseek-v3: mla, ")
    assert load_model(name).asked is None
