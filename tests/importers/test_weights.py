"""Bytes of weights: real small files, lying ones, indexes, GGUF, and what a spec alone can say."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.cli import main
from kvplan.errors import InputError
from kvplan.importers import safetensors
from kvplan.importers.safetensors import file_bytes
from kvplan.importers.weights import weights_of
from kvplan.load import load_model
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FullAttention
from tests.importers.config_cases import llama
from tests.importers.gguf_writer import F16, F32, Q4_K, Q8_0, write_gguf

SPEC = ModelSpec(
    name="tiny",
    layers=("attention",),
    kinds={"attention": (FullAttention(kv_heads=1, head_dim=64),)},
)
INDEX = "model.safetensors.index.json"
ELEMENT_BITS = {"F32": 32, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "U8": 8, "I8": 8, "F4": 4}

Tensors = dict[str, tuple[str, list[int]]]


def write_safetensors(path: Path, tensors: Tensors, *, data: bool = True) -> Path:
    """A file as the format describes it: header length, header, tensors one behind the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, elements = end, 1
        for dimension in shape:
            elements *= dimension
        end += elements * ELEMENT_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    return write_raw(path, json.dumps(header).encode(), bytes(end) if data else b"")


def write_raw(path: Path, header: bytes, data: bytes = b"", length: int | None = None) -> Path:
    """A file with a header of any content, and any length claimed for it."""
    claimed = len(header) if length is None else length
    path.write_bytes(claimed.to_bytes(8, "little") + header + data)
    return path


def write_index(folder: Path, weight_map: Any, **metadata: Any) -> None:
    """The index of a sharded model."""
    text = json.dumps({"metadata": metadata, "weight_map": weight_map})
    (folder / INDEX).write_text(text)


# -- safetensors ----------------------------------------------------------------------------


def test_one_file(tmp_path: Path) -> None:
    """Every format on its own: 4 x 8 elements of each, the scales of FP4 in bytes."""
    tensors: Tensors = {
        "embed": ("BF16", [4, 8]),  # 64 bytes
        "norm": ("F32", [8]),  # 32
        "w8": ("F8_E4M3", [4, 8]),  # 32
        "w5": ("F8_E5M2", [4, 8]),  # 32
        "packed": ("U8", [4, 4]),  # 16
        "w4": ("F4", [4, 8]),  # 16
        "scalar": ("F32", []),  # 4: the product of no dimension is one element
        "nothing": ("BF16", [0, 8]),  # 0
    }
    write_safetensors(tmp_path / "model.safetensors", tensors)
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.by_dtype == {
        "bfloat16": 64, "float32": 36, "fp8_e4m3": 32, "fp8_e5m2": 32, "uint8": 16, "fp4_e2m1": 16,
    }  # fmt: skip
    assert found.bytes == 64 + 36 + 32 + 32 + 16 + 16
    assert found.source == "safetensors header"


def test_beside_a_config(tmp_path: Path) -> None:
    """The weights of a config named by its path lie beside it; those of other files do not."""
    write_safetensors(tmp_path / "model.safetensors", {"a": ("BF16", [4])})
    for name in ("config.json", "params.json"):
        found = weights_of(SPEC, str(tmp_path / name))
        assert found is not None
        assert found.bytes == 8
    assert weights_of(SPEC, str(tmp_path / "spec.yaml")) is None


def test_header_alone(tmp_path: Path) -> None:
    """A file cut off behind its header still says how large its weights are."""
    write_safetensors(tmp_path / "model.safetensors", {"a": ("BF16", [1024, 1024])}, data=False)
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.bytes == 2 * 1024 * 1024


def test_unknown_format(tmp_path: Path) -> None:
    """A format of a later version keeps its own name; its offsets say its bytes."""
    header = {"a": {"dtype": "F3_X", "shape": [8], "data_offsets": [0, 3]}}
    write_raw(tmp_path / "model.safetensors", json.dumps(header).encode(), bytes(3))
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.by_dtype == {"f3_x": 3}


def test_shards(tmp_path: Path) -> None:
    """The shards that the index names, and no other file that lies there."""
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a": ("BF16", [100])})
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", {"b": ("F8_E4M3", [50])})
    write_safetensors(tmp_path / "consolidated.safetensors", {"a": ("BF16", [100])})
    names = {i: f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    # total_size is wrong on purpose: the headers know better.
    write_index(tmp_path, {"a": names[1], "b": names[2]}, total_size=999)
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert (found.bytes, found.by_dtype) == (250, {"bfloat16": 200, "fp8_e4m3": 50})
    assert found.source == "safetensors headers of 2 files"
    (tmp_path / names[2]).unlink()
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert (found.bytes, found.by_dtype) == (999, None)
    assert found.source == f"total_size of {INDEX}"


def test_shards_without_index(tmp_path: Path) -> None:
    """Their names say how many there must be; a set with a gap is not summed."""
    for part in (1, 2, 3):
        path = tmp_path / f"model-0000{part}-of-00003.safetensors"
        write_safetensors(path, {f"t{part}": ("BF16", [10])})
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.bytes == 3 * 20
    path.unlink()
    assert weights_of(SPEC, str(tmp_path)) is None


def test_one_model_twice(tmp_path: Path) -> None:
    """Mistral's repositories hold the weights a second time, which counts once."""
    for name in ("model.safetensors", "consolidated.safetensors"):
        write_safetensors(tmp_path / name, {"a": ("BF16", [10])})
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.bytes == 20
    (tmp_path / "model.safetensors").unlink()
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert found.bytes == 20


def test_links(tmp_path: Path) -> None:
    """A cached model's files are links to blobs elsewhere."""
    blob = write_safetensors(tmp_path / "blob", {"a": ("BF16", [10])})
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(blob)
    found = weights_of(SPEC, str(folder))
    assert found is not None
    assert found.bytes == 20
    blob.unlink()
    assert weights_of(SPEC, str(folder)) is None


@pytest.mark.parametrize(
    ("header", "length"),
    [
        (b"{}", 3),  # beyond the file
        (b"{}", 2**63),
        (b"{}", 2**64 - 1),
        (b"{}", 0),
        (b"{}", 1),
        (b"{}" * 50, 100_000_001),  # beyond the format's limit
        (b"\x80\x02}q", None),  # a pickle
        (b"[]", None),
        (b"{]", None),
        (b"{\xff}", None),
        (b"[" * 100_000, None),
        (b'{"a": 1}', None),
        (b'{"a": {"dtype": "F32", "shape": [1]}}', None),
        (b'{"a": {"dtype": 7, "shape": [1], "data_offsets": [0, 4]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4.0]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [false, 4]}}', None),
        (b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', None),  # takes 8
        (b'{"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}', None),  # 12 bits
        (b'{"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 9223372036854775807]}}', None),
        (
            b'{"a": {"dtype": "F32", "shape": [4611686018427387904],'
            b' "data_offsets": [0, 18446744073709551616]}}',
            None,
        ),
    ],
)
def test_lying_headers(tmp_path: Path, header: bytes, length: int | None) -> None:
    """A header that cannot be true is refused, with the file's name."""
    path = write_raw(tmp_path / "model.safetensors", header, length=length)
    with pytest.raises(InputError) as refused:
        weights_of(SPEC, str(tmp_path))
    assert refused.value.where == str(path)


def test_shapes_beyond_any_number(tmp_path: Path) -> None:
    """60 dimensions of 2^62: the product, 2^3720, is no float; it is an error all the same."""
    header = {"a": {"dtype": "BF16", "shape": [2**62] * 60, "data_offsets": [0, 2]}}
    path = write_raw(tmp_path / "a.safetensors", json.dumps(header).encode(), bytes(2))
    with pytest.raises(InputError, match="data_offsets say 2"):
        file_bytes(str(path))


def test_parts_of_a_byte(tmp_path: Path) -> None:
    """Three elements of FP4 are 12 bits, which no whole number of bytes is."""
    header = {"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}
    path = write_raw(tmp_path / "a.safetensors", json.dumps(header).encode(), bytes(2))
    with pytest.raises(InputError, match="takes 12 bits, its data_offsets say 2"):
        file_bytes(str(path))


def test_more_values_than_tensors(tmp_path: Path) -> None:
    """Two million empty lists are a few megabytes of text and hundreds in memory: not parsed."""
    header = b'{"a":[' + b"[]," * (2**21 + 1) + b"[]]}"
    path = write_raw(tmp_path / "a.safetensors", header)
    with pytest.raises(InputError, match="more values than"):
        file_bytes(str(path))


def test_longer_than_any_header(tmp_path: Path) -> None:
    """A header of more than 32 MiB, and an index of more than 64 MiB, are not even read."""
    path = write_raw(tmp_path / "model.safetensors", b"{}", length=32 * 2**20 + 1)
    with path.open("r+b") as file:
        file.truncate(64 * 2**20)
    with pytest.raises(InputError, match="a header of 33,554,433 bytes"):
        file_bytes(str(path))
    with (tmp_path / INDEX).open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(InputError, match="larger than 67,108,864 bytes"):
        weights_of(SPEC, str(tmp_path))


def test_memory_that_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said of the file that was read."""

    def loads(*_: Any, **__: Any) -> None:
        raise MemoryError

    path = write_raw(tmp_path / "a.safetensors", b'{"a": 1}')
    monkeypatch.setattr(safetensors.json, "loads", loads)
    with pytest.raises(InputError, match=r"a\.safetensors: takes more memory"):
        file_bytes(str(path))


def entry(begin: int, end: int) -> dict[str, Any]:
    """A tensor of bytes from `begin` to `end`."""
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("second", "words"), [((2, 6), "overlaps"), ((0, 4), "overlaps"), ((5, 9), "hole")]
)
def test_places(tmp_path: Path, second: tuple[int, int], words: str) -> None:
    """Two tensors in one place would count twice; a hole would not count."""
    header = json.dumps({"a": entry(0, 4), "b": entry(*second)}).encode()
    path = write_raw(tmp_path / "model.safetensors", header, bytes(9))
    with pytest.raises(InputError, match=words):
        file_bytes(str(path))


def test_order_does_not_matter(tmp_path: Path) -> None:
    """The header may list tensors in any order, empty ones anywhere."""
    header = json.dumps({"b": entry(4, 9), "empty": entry(4, 4), "a": entry(0, 4)}).encode()
    path = write_raw(tmp_path / "x.safetensors", header, bytes(9))
    assert file_bytes(str(path)) == {"uint8": 9}


def test_duplicate_keys(tmp_path: Path) -> None:
    """A tensor that stands twice has two sizes, depending on who reads."""
    one = json.dumps(entry(0, 4))
    header = f'{{"a": {one}, "a": {one}}}'.encode()
    write_raw(tmp_path / "model.safetensors", header, bytes(4))
    with pytest.raises(InputError, match="'a' stands 2 times"):
        weights_of(SPEC, str(tmp_path))


def test_short_files(tmp_path: Path) -> None:
    """Empty, or shorter than the length of a header."""
    for content in (b"", b"\x02", b"\x02" + bytes(6), b"\x02" + bytes(7)):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(InputError, match="is no safetensors file"):
            weights_of(SPEC, str(tmp_path))


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, length: int) -> None:
    """Bytes at random are refused or read, never anything else."""
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    write_raw(path, data, length=length)
    with contextlib.suppress(InputError):
        assert all(amount >= 0 for amount in file_bytes(str(path)).values())


# -- the index ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b.safetensors", "..", ""])
def test_index_leaves_its_folder(tmp_path: Path, name: str) -> None:
    """A weight file elsewhere is not opened."""
    write_index(tmp_path, {"a": name}, total_size=5)
    with pytest.raises(InputError, match="outside its own folder") as refused:
        weights_of(SPEC, str(tmp_path))
    assert refused.value.where == str(tmp_path / INDEX)


@pytest.mark.parametrize("weight_map", [None, [], {"a": 1}, {"a": ["x"]}, "x"])
def test_index_without_map(tmp_path: Path, weight_map: Any) -> None:
    """An index that maps nothing to files is none."""
    write_index(tmp_path, weight_map, total_size=5)
    with pytest.raises(InputError, match="weight_map"):
        weights_of(SPEC, str(tmp_path))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (16_060_522_496, 16_060_522_496),
        (1.5e10, 15_000_000_000),
        (0, None),
        (-5, None),
        (True, None),
        ("16 GB", None),
        (1.5, None),
        (float("inf"), None),
        (float("nan"), None),
        (2**63, None),
        (None, None),
    ],
)
def test_total_size(tmp_path: Path, size: Any, expected: int | None) -> None:
    """The total that an index states, where it is a size at all."""
    write_index(tmp_path, {"a": "model-00001-of-00002.safetensors"}, total_size=size)
    found = weights_of(SPEC, str(tmp_path))
    assert (found and found.bytes) == expected


def test_index_of_older_weights(tmp_path: Path) -> None:
    """Weights in pickles are never opened; their index states the total."""
    index = {"metadata": {"total_size": 1234}, "weight_map": {"a": "pytorch_model-1.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "pytorch_model-1.bin").write_bytes(b"\x80\x02")
    found = weights_of(SPEC, str(tmp_path))
    assert found is not None
    assert (found.bytes, found.by_dtype) == (1234, None)


# -- GGUF -----------------------------------------------------------------------------------

GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 2048,
    "llama.embedding_length": 512,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
}


def test_gguf(tmp_path: Path) -> None:
    """Blocks by type: 256 x 2 in Q4_K are 2 blocks of 144 bytes, 32 x 3 in Q8_0 3 of 34."""
    tensors = [("a", (256, 2), Q4_K), ("b", (32, 3), Q8_0), ("c", (5,), F32), ("d", (4, 4), F16)]
    path = write_gguf(tmp_path / "x.gguf", GGUF, tensors)
    found = weights_of(SPEC, str(path))
    assert found is not None
    assert found.by_dtype == {"Q4_K": 288, "Q8_0": 102, "F32": 20, "F16": 32}
    assert found.bytes == 442
    # The same under a name without an ending, and by the folder it lies in.
    blob = tmp_path / "sha256-0"
    path.rename(blob)
    assert weights_of(load_model(str(blob)).spec, str(blob)) == found


def test_gguf_without_tensors(tmp_path: Path) -> None:
    """Metadata alone says nothing of the weights."""
    path = write_gguf(tmp_path / "x.gguf", GGUF)
    assert weights_of(load_model(str(path)).spec, str(path)) is None


def test_gguf_of_unknown_type(tmp_path: Path) -> None:
    """A storage type of a later ggml has unknown bytes."""
    path = write_gguf(tmp_path / "x.gguf", GGUF, [("a", (32,), 99)])
    with pytest.raises(InputError, match="unknown type 99"):
        weights_of(SPEC, str(path))


def test_gguf_in_parts(tmp_path: Path) -> None:
    """All parts together; with a part missing nothing is summed."""
    for part in (1, 2):
        metadata = {**GGUF, "split.count": 2, "split.no": part - 1}
        path = tmp_path / f"x-0000{part}-of-00002.gguf"
        write_gguf(path, metadata, [(f"t{part}", (32,), F16)])
    first = str(tmp_path / "x-00001-of-00002.gguf")
    found = weights_of(SPEC, first)
    assert found is not None
    assert found.bytes == 2 * 64
    path.unlink()
    assert weights_of(SPEC, first) is None


# -- a spec alone ---------------------------------------------------------------------------


def test_parameters() -> None:
    """Parameters in the model's own format: 8,030,261,248 in bfloat16."""
    spec = SPEC.replaced(parameters=8_030_261_248, dtype="bfloat16")
    found = weights_of(spec, "spec.yaml")
    assert found is not None
    assert found.bytes == 16_060_522_496
    assert found.source == "8,030,261,248 parameters in bfloat16"


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": 10},
        {"dtype": "bfloat16"},
        {"parameters": 10, "dtype": "bfloat16", "quant_method": "awq"},
    ],
)
def test_what_a_spec_does_not_say(changes: dict[str, Any]) -> None:
    """Without parameters or a format, or quantised: unknown, not a guess."""
    assert weights_of(SPEC.replaced(**changes), "spec.yaml") is None


def test_quantised_copy_of_a_known_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen3-8B-FP8 shares the spec of Qwen3-8B: its parameters in bfloat16 are not its weights.

    What the cache holds of the very id is.
    """
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    whole, copy = load_model("Qwen/Qwen3-8B"), load_model("qwen/qwen3-8b-fp8")
    assert copy.spec.layers == whole.spec.layers
    assert (whole.spec.quant_method, copy.spec.quant_method) == (None, "fp8")
    assert (whole.hf_id, copy.hf_id) == ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8")
    found = weights_of(whole.spec, whole.origin, hf_id=whole.hf_id)
    assert found is not None
    assert found.bytes == 2 * (whole.spec.parameters or 0)
    assert weights_of(copy.spec, copy.origin, hf_id=copy.hf_id) is None
    snapshot = tmp_path / "models--Qwen--Qwen3-8B-FP8" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    write_safetensors(snapshot / "model.safetensors", {"a": ("F8_E4M3", [100])})
    found = weights_of(copy.spec, copy.origin, hf_id=copy.hf_id)
    assert found is not None
    assert found.by_dtype == {"fp8_e4m3": 100}


@pytest.mark.parametrize(
    ("changes", "hf_id", "known"),
    [
        ({"name": "big-nvfp4"}, None, False),
        ({"hf_ids": ("nvidia/Big-NVFP4", "o/Big")}, None, False),
        ({"hf_ids": ("nvidia/Big-NVFP4", "o/Big")}, "o/Big", True),
        ({"hf_ids": ("o/Big", "o/Big-FP8")}, None, True),
    ],
)
def test_a_spec_of_a_quantised_checkpoint(
    changes: dict[str, Any], hf_id: str | None, known: bool
) -> None:
    """Its own name, or the id of the checkpoint it was read from, says so too."""
    spec = SPEC.replaced(parameters=10, dtype="bfloat16", **changes)
    assert (weights_of(spec, "spec.yaml", hf_id=hf_id) is not None) == known


@pytest.mark.parametrize(
    "name",
    ["gemma-4-31b-it-nvfp4", "kimi-k3", "mimo-v2-flash", "minimax-m2.7", "mistral-small-4"],
)
def test_quantised_checkpoints_of_the_catalogue(name: str, capsys: Any) -> None:
    """Their published configs quantise the weights: parameters x dtype would be about double."""
    assert load_model(name).spec.quant_method is not None
    out, _ = run(capsys, name, "--weights", "--json")
    result = json.loads(out)["results"][0]
    assert result["weights"] is None
    (warning,) = [w for w in result["warnings"] if w["id"] == "weights-unknown"]
    assert "parameters are known, their format is not" in warning["message"]
    assert "name the folder with the safetensors files" in warning["message"]


@pytest.mark.parametrize(
    ("name", "quantised"),
    [
        ("Qwen/Qwen3-8B-FP8", True),
        ("nvidia/X-NVFP4", True),
        ("o/X-AWQ-INT4", True),
        ("o/X-w4a16", True),
        ("o/X-4bit", True),
        ("o/X-bnb-4bit", True),
        ("o/X-Q4_K_M-GGUF", True),
        ("o/X-GPTQ-Int8", True),
        ("o/X-8B-BF16", False),
        ("o/X-8b-instruct", False),
        ("o/Qwen3-4B-2507", False),
        ("google/gemma-3-12b-it", False),
    ],
)
def test_ids_of_quantised_copies(name: str, quantised: bool) -> None:
    """An id that speaks of a quantisation has unknown weights where no file is at hand."""
    spec = SPEC.replaced(parameters=10, dtype="bfloat16")
    assert (weights_of(spec, "spec.yaml", hf_id=name) is None) == quantised


# -- kvplan size --weights ------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a config and 64 + 32 bytes of weights."""
    (tmp_path / "config.json").write_text(json.dumps(llama()))
    tensors: Tensors = {"a": ("BF16", [32]), "b": ("F8_E4M3", [32])}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    return tmp_path


def run(capsys: Any, *arguments: str) -> tuple[str, str]:
    """stdout and stderr of a run that ends well."""
    assert main(["size", *arguments]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_json(model: Path, capsys: Any) -> None:
    """Bytes, formats and source; without --weights no word of them."""
    out, err = run(capsys, str(model), "--weights", "--json")
    assert err == ""
    assert json.loads(out)["results"][0]["weights"] == {
        "bytes": 96,
        "by_dtype": {"bfloat16": 64, "fp8_e4m3": 32},
        "source": "safetensors header",
    }
    out, _ = run(capsys, str(model), "--json")
    assert "weights" not in json.loads(out)["results"][0]


def test_csv(model: Path, capsys: Any) -> None:
    """A column of whole bytes."""
    out, _ = run(capsys, str(model), "--weights", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["weights_bytes"] == "96"


def test_table(model: Path, capsys: Any) -> None:
    """The total and each format, alone and beside another model."""
    out, _ = run(capsys, str(model), "--weights")
    assert "96 bytes, safetensors header" in out
    assert "bfloat16 64 B, fp8_e4m3 32 B" in out
    out, _ = run(capsys, str(model), "llama3-8b", "--weights")
    header, *_ = out.splitlines()
    assert "weights" in header


def test_unknown_weights(tmp_path: Path, capsys: Any) -> None:
    """A quantised checkpoint without its files: null, with a warning."""
    quant = {"quant_method": "awq", "bits": 4}
    (tmp_path / "config.json").write_text(json.dumps(llama(quantization_config=quant)))
    out, _ = run(capsys, str(tmp_path), "--weights", "--json")
    result = json.loads(out)["results"][0]
    assert result["weights"] is None
    assert [warning["id"] for warning in result["warnings"]] == ["weights-unknown"]
    out, _ = run(capsys, str(tmp_path), "--weights", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["weights_bytes"] == ""


def test_lying_weights_are_an_error(model: Path, capsys: Any) -> None:
    """Exit code 2 and the file's name, for the weights only."""
    write_raw(model / "model.safetensors", b"{}", length=2**63)
    assert main(["size", str(model), "--weights"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "model.safetensors" in captured.err
    assert len(captured.err.splitlines()) <= 3
    assert main(["size", str(model), "--json"]) == 0
