"""The GGUF header reader: what it reads, what it skips, and how it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.importers.gguf.file import GgufError, GgufHeader, Skipped, read_header, weight_bytes
from kvplan.importers.gguf.tensors import GGML_TYPES
from tests.importers.gguf_writer import (
    BF16,
    F16,
    F32,
    MXFP4,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_0,
    Typed,
    encode_header,
    encode_text,
    write_gguf,
    write_truth_model,
)

MIB = 1024**2
RECORDED = Path(__file__).parents[1] / "data" / "llamacpp" / "recorded.json"

METADATA = {
    "general.architecture": "llama",
    "general.alignment": 64,
    "llama.block_count": 2,
    "llama.attention.head_count_kv": [8, 0],
    "llama.attention.sliding_window_pattern": [True, False],
    "llama.rope.freq_base": 10000.0,
    "llama.offset": -1,
    "llama.huge": 2**40,
    "tokenizer.ggml.tokens": ["<s>", "a", "größer"],
    "tokenizer.ggml.add_bos_token": True,
}
TENSORS = [("token_embd.weight", (256, 3), Q4_K), ("output_norm.weight", (256,), F32)]


def write_bytes(path: Path, *pieces: bytes) -> Path:
    path.write_bytes(b"".join(pieces))
    return path


def start(version: int = 3, tensors: int = 0, keys: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def array_key(item_type: int, count: int, key: str = "a") -> bytes:
    return encode_text(key) + struct.pack("<IIQ", 9, item_type, count)


def refusal(path: Path | str, **options: Any) -> GgufError:
    with pytest.raises(GgufError) as caught:
        read_header(path, **options)
    assert str(caught.value).startswith(str(caught.value.path))
    return caught.value


def peak_bytes(path: Path) -> int:
    """Peak of what one reading allocates, whether it ends in a header or in a refusal."""
    tracemalloc.start()
    try:
        with contextlib.suppress(GgufError):
            read_header(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("big_endian", [False, True])
def test_reads_both_versions_and_byte_orders(tmp_path, version, big_endian):
    """Every value type and tensor info is the same whatever the version and byte order."""
    path = write_gguf(
        tmp_path / "m.gguf", METADATA, TENSORS, version=version, big_endian=big_endian
    )

    header = read_header(path)

    assert header.path == path
    assert header.parts == (path,)
    assert header.split_count == 1
    assert header.version == version
    assert header.byte_order == ("big" if big_endian else "little")
    assert dict(header.metadata) == {
        "general.architecture": "llama",
        "general.alignment": 64,
        "llama.block_count": 2,
        "llama.attention.head_count_kv": (8, 0),
        "llama.attention.sliding_window_pattern": (True, False),
        "llama.rope.freq_base": 10000.0,
        "llama.offset": -1,
        "llama.huge": 2**40,
        "tokenizer.ggml.tokens": Skipped("array[string]", 3),
        "tokenizer.ggml.add_bos_token": True,
    }
    assert type(header.metadata["tokenizer.ggml.add_bos_token"]) is bool
    embd, norm = header.tensors
    assert (embd.name, embd.shape, embd.type_name, embd.offset, embd.nbytes) == (
        "token_embd.weight",
        (256, 3),
        "Q4_K",
        0,
        432,  # 3 rows of one block of 144 bytes
    )
    # 432 padded to 64 is 448
    assert (norm.shape, norm.type_name, norm.offset, norm.nbytes) == ((256,), "F32", 448, 1024)
    assert header.data_bytes_missing == 0


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("uint8", 255),
        ("int8", -128),
        ("uint16", 65535),
        ("int16", -32768),
        ("uint32", 2**32 - 1),
        ("int32", -(2**31)),
        ("float32", 0.5),
        ("bool", False),
        ("uint64", 2**64 - 1),
        ("int64", -(2**63)),
        ("float64", 0.1),
        ("string", "µ"),
    ],
)
def test_reads_every_scalar_type_alone_and_in_an_array(tmp_path, type_name, value):
    """The edge of each type survives, as a scalar and as an array of two."""
    path = write_gguf(
        tmp_path / "m.gguf", {"a": Typed(type_name, value), "b": Typed(type_name, [value] * 2)}
    )

    assert dict(read_header(path).metadata) == {"a": value, "b": (value, value)}


def test_keeps_arrays_up_to_4096_elements_and_none_of_the_tokenizer(tmp_path):
    """Per-layer arrays are values; a larger array leaves its type and length."""
    path = write_gguf(
        tmp_path / "m.gguf",
        {
            "a.small": list(range(4096)),
            "a.large": list(range(4097)),
            "a.empty": [],
            "tokenizer.ggml.scores": [0.0, 1.0],
        },
    )

    assert dict(read_header(path).metadata) == {
        "a.small": tuple(range(4096)),
        "a.large": Skipped("array[int32]", 4097),
        "a.empty": (),
        "tokenizer.ggml.scores": Skipped("array[float32]", 2),
    }


def test_metadata_cannot_be_changed(tmp_path):
    """The mapping of a header is read-only."""
    header = read_header(write_gguf(tmp_path / "m.gguf", {"a": 1}))

    with pytest.raises(TypeError):
        header.metadata["a"] = 2  # type: ignore[index]


def test_weight_bytes_sums_by_type(tmp_path):
    """Each type's bytes are its blocks times the bytes of a block."""
    path = write_gguf(
        tmp_path / "m.gguf",
        {},
        [
            ("a", (64, 10), Q4_0),
            ("b", (32,), Q4_0),
            ("c", (512, 2), Q6_K),
            ("d", (7, 3, 2), BF16),
            ("e", (32, 4), Q8_0),
            ("f", (64, 5), MXFP4),
            ("g", (), F16),
        ],
    )

    assert weight_bytes(read_header(path)) == {
        "Q4_0": 20 * 18 + 18,
        "Q6_K": 4 * 210,
        "BF16": 42 * 2,
        "Q8_0": 4 * 34,
        "MXFP4": 10 * 17,
        "F16": 2,
    }


def test_unknown_tensor_type_has_unknown_bytes(tmp_path):
    """A type number outside the table is named and not counted."""
    path = write_gguf(tmp_path / "m.gguf", {}, [("a", (32,), 4), ("b", (32,), 999), ("c", (3,), 0)])

    header = read_header(path)

    assert [tensor.nbytes for tensor in header.tensors] == [None, None, 12]
    assert weight_bytes(header) == {"unknown type 4": None, "unknown type 999": None, "F32": 12}


def test_type_table_equals_the_gguf_package():
    """Numbers, names and block sizes are those of the package that llama.cpp ships."""
    constants = pytest.importorskip("gguf.constants")
    expected = {
        int(number): (number.name, *sizes) for number, sizes in constants.GGML_QUANT_SIZES.items()
    }

    assert expected.items() <= GGML_TYPES.items()


def test_file_that_ends_after_its_header(tmp_path):
    """A file without its data is read in full, and says how many bytes are not there."""
    path = write_gguf(tmp_path / "m.gguf", METADATA, TENSORS, with_data=False)
    whole = write_gguf(tmp_path / "whole.gguf", METADATA, TENSORS)

    header = read_header(path)

    assert header.tensors == read_header(whole).tensors
    # padding to 64, then the last tensor ends 448 + 1024 bytes into the data
    padding = -path.stat().st_size % 64
    assert header.data_bytes_missing == padding + 448 + 1024


def test_metadata_only_reads_no_tensor_info(tmp_path):
    """Metadata can be had from a file that ends right behind it; weights then cannot."""
    whole, _ = encode_header({"a": 1}, TENSORS)
    metadata_bytes, _ = encode_header({"a": 1})
    path = write_bytes(tmp_path / "m.gguf", whole[: len(metadata_bytes)])

    header = read_header(path, metadata_only=True)

    assert dict(header.metadata) == {"a": 1}
    assert (header.tensors, header.tensors_read, header.data_bytes_missing) == ((), False, None)
    with pytest.raises(ValueError, match="tensor infos"):
        weight_bytes(header)
    assert refusal(path).offset == len(metadata_bytes)


def write_split(folder: Path, *, claimed: int = 3, numbers: tuple[int, ...] = (0, 1, 2)) -> Path:
    """Three parts with one tensor each, as gguf-split names and keys them; the first one's path."""
    for index, number in enumerate(numbers):
        metadata: dict[str, Any] = {"general.architecture": "llama"} if index == 0 else {}
        metadata["split.no"] = Typed("uint16", number)
        metadata["split.count"] = Typed("uint16", 3)
        metadata["split.tensors.count"] = Typed("int32", claimed)
        path = folder / f"m-{index + 1:05d}-of-00003.gguf"
        write_gguf(path, metadata, [(f"blk.{index}", (32, index + 1), Q8_0)])
    return folder / "m-00001-of-00003.gguf"


def test_split_model_is_read_through_its_first_part(tmp_path):
    """The parts beside the first add their tensors; the metadata is the first one's."""
    header = read_header(write_split(tmp_path))

    assert header.metadata["general.architecture"] == "llama"
    assert [path.name for path in header.parts] == [
        "m-00001-of-00003.gguf",
        "m-00002-of-00003.gguf",
        "m-00003-of-00003.gguf",
    ]
    assert header.split_count == 3
    assert [(tensor.name, tensor.part) for tensor in header.tensors] == [
        ("blk.0", 0),
        ("blk.1", 1),
        ("blk.2", 2),
    ]
    assert weight_bytes(header) == {"Q8_0": (1 + 2 + 3) * 34}
    assert header.data_bytes_missing == 0


def test_missing_part_is_named_unless_only_metadata_is_asked_for(tmp_path):
    """Weights of a model without its second part are refused; its metadata is not."""
    path = write_split(tmp_path)
    (tmp_path / "m-00002-of-00003.gguf").unlink()

    error = refusal(path)
    header = read_header(path, metadata_only=True)

    assert error.message == "part 2 of 3 is missing: m-00002-of-00003.gguf"
    assert header.metadata["general.architecture"] == "llama"
    assert header.parts == (path,)
    assert header.split_count == 3


@pytest.mark.parametrize("metadata_only", [False, True])
def test_later_part_points_to_the_first(tmp_path, metadata_only):
    """A later part holds no metadata of the model."""
    write_split(tmp_path)

    error = refusal(tmp_path / "m-00003-of-00003.gguf", metadata_only=metadata_only)

    assert error.message == "split.no is 2: not the first of 3 parts"
    assert error.hint == "read m-00001-of-00003.gguf, which holds the metadata"


def test_parts_that_contradict_each_other(tmp_path):
    """A part of another place, a wrong total and a name without numbers are refused."""
    path = write_split(tmp_path, numbers=(0, 2, 1))
    assert refusal(path).message == "split.no is 2, expected 1"

    path = write_split(tmp_path, claimed=4)
    assert refusal(path).message == "split.tensors.count is 4, the 3 parts hold 3"

    renamed = path.rename(tmp_path / "model.gguf")
    assert "the name does not tell" in refusal(renamed).message
    assert read_header(renamed, metadata_only=True).split_count == 3


def test_a_tensor_in_two_parts_is_refused(tmp_path):
    """Tensor names are unique in the whole model."""
    path = write_split(tmp_path)
    split = {"split.no": 1, "split.count": 3}
    write_gguf(tmp_path / "m-00002-of-00003.gguf", split, [("blk.0", (32,), Q8_0)])

    assert refusal(path).message == "the tensor 'blk.0' is there twice"


@pytest.mark.parametrize(
    ("pieces", "offset", "message"),
    [
        pytest.param([b""], 0, "is empty", id="empty"),
        pytest.param([b"GG"], 0, "the magic needs 4 bytes, the file has 2 left", id="two bytes"),
        pytest.param([b"PK\3\4" + bytes(40)], 0, "begins with", id="magic"),
        pytest.param([b"FUGG" + bytes(40)], 0, "begins with", id="magic backwards"),
        pytest.param([b"GGUF\3\0"], 4, "the version needs 4 bytes", id="half a version"),
        pytest.param([start(version=0)], 4, "version 0 ", id="version 0"),
        pytest.param([start(version=1)], 4, "version 1 is not read", id="version 1"),
        pytest.param([start(version=4)], 4, "version 4 ", id="version 4"),
        pytest.param([b"GGUF\3\0\0\0" + bytes(8)], 16, "the key count", id="no key count"),
        pytest.param([start(keys=2**63)], 16, "9223372036854775808 metadata keys", id="keys"),
        pytest.param([start(tensors=2**63)], 8, "9223372036854775808 tensors", id="tensors"),
        pytest.param([start(keys=9)], 24, "the length of a metadata key", id="no keys"),
        pytest.param(
            [start(keys=1), struct.pack("<Q", 2**63), b"a"],
            32,
            "a metadata key needs 9223372036854775808 bytes, the file has 1 left",
            id="key beyond the file",
        ),
        pytest.param(
            [start(keys=1), encode_text(b"\xff"), struct.pack("<IB", 0, 1)],
            32,
            "a metadata key is not valid UTF-8",
            id="key not UTF-8",
        ),
        pytest.param(
            [start(keys=1), encode_text("a"), struct.pack("<I", 8), encode_text(b"ok\xc3(")],
            24 + 9 + 4 + 8 + 2,
            "the value of 'a' is not valid UTF-8",
            id="value not UTF-8",
        ),
        pytest.param(
            [start(keys=1), array_key(8, 2), encode_text("ok"), encode_text(b"\x80")],
            24 + 9 + 16 + 10 + 8,
            "the value of 'a' is not valid UTF-8",
            id="element not UTF-8",
        ),
        pytest.param(
            [start(keys=1), encode_text("a"), struct.pack("<IQ", 8, 2**64 - 1), b"abc"],
            24 + 9 + 4 + 8,
            "needs 18446744073709551615 bytes, the file has 3 left",
            id="string beyond the file",
        ),
        pytest.param(
            [start(keys=1), encode_text("a"), struct.pack("<II", 13, 0)],
            33,
            "the value of 'a' has the unknown type 13",
            id="unknown type",
        ),
        pytest.param(
            [start(keys=1), array_key(77, 0)],
            49,
            "the value of 'a' has elements of the unknown type 77",
            id="unknown element type",
        ),
        pytest.param(
            [start(keys=1), encode_text("a"), struct.pack("<IB", 7, 2)],
            37,
            "holds the bool 2, not 0 or 1",
            id="bool 2",
        ),
        pytest.param(
            [start(keys=1), array_key(7, 3), b"\0\1\7"], 51, "holds the bool 7", id="bool array"
        ),
        pytest.param(
            [start(keys=1), array_key(0, 10**9), b"abc"],
            49,
            "the value of 'a' needs 1000000000 bytes, the file has 3 left",
            id="10^9 bytes in a small file",
        ),
        pytest.param(
            [start(keys=1), array_key(10, 2**63), bytes(64)], 49, "has 64 left", id="2^63 uint64"
        ),
        pytest.param(
            [start(keys=1), array_key(8, 2**63), bytes(64)], 49, "has 64 left", id="2^63 strings"
        ),
        pytest.param(
            [start(keys=1), array_key(8, 2), struct.pack("<Q", 2**63), bytes(8)],
            24 + 9 + 16 + 16,
            "a string of the value of 'a' needs 8 bytes, the file has 0 left",
            id="string array beyond the file",
        ),
        pytest.param(
            [start(keys=1), array_key(8, 1), struct.pack("<Q", 9), bytes(8)],
            49,
            "the value of 'a' needs 17 bytes, the file has 16 left",
            id="last string beyond the file",
        ),
        pytest.param(
            [start(keys=1), array_key(9, 1), struct.pack("<IQ", 9, 1) * 9999],
            24 + 9 + 4 + 4 * 12,
            "nests arrays deeper than 4",
            id="nested arrays",
        ),
        pytest.param(
            [start(keys=2), (encode_text("a") + struct.pack("<IB", 0, 1)) * 2],
            38,
            "the key 'a' is there twice",
            id="duplicate key",
        ),
        pytest.param([encode_header({"general.alignment": 0})[0]], 24, "is 0,", id="alignment 0"),
        pytest.param([encode_header({"general.alignment": 24})[0]], 24, "is 24,", id="24"),
        pytest.param([encode_header({"general.alignment": "8"})[0]], 24, "is '8',", id="text"),
        pytest.param(
            [encode_header({}, TENSORS)[0][:-1]],
            len(encode_header({}, TENSORS)[0]) - 8,
            "the data offset",
            id="cut in the last info",
        ),
        pytest.param(
            [encode_header({}, [("a", (1,) * 5, F32)])[0]], 33, "has 5 dimensions", id="dimensions"
        ),
        pytest.param(
            [encode_header({}, [("a", (2**32, 2**31), F32)])[0]], 24, "more elements", id="elements"
        ),
        pytest.param(
            [encode_header({}, [("a", (33,), Q8_0)])[0]], 24, "Q8_0 needs blocks of 32", id="row"
        ),
        pytest.param(
            [encode_header({}, [("a", (1,), F32)] * 2)[0]],
            24 + 9 + 4 + 8 + 4 + 8,
            "the tensor 'a' is there twice",
            id="duplicate tensor",
        ),
    ],
)
def test_refuses_broken_files_with_the_place(tmp_path, pieces, offset, message):
    """Whatever is wrong, the error names the file and the byte where the bad value begins."""
    path = write_bytes(tmp_path / "bad.gguf", *pieces)

    began = time.perf_counter()
    error = refusal(path)

    assert isinstance(error, InputError)
    assert message in error.message
    assert error.offset == offset
    assert str(error).startswith(f"{path}: byte {offset}: ")
    assert time.perf_counter() - began < 1


def test_refuses_what_is_no_file(tmp_path):
    """A folder, a pipe, a missing path and an impossible name are refused without waiting."""
    pipe = tmp_path / "pipe.gguf"
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
        assert "this is not a regular file" in refusal(pipe).message

    assert "this is a folder" in refusal(tmp_path).message
    assert "cannot be read" in refusal(tmp_path / "none.gguf").message
    with pytest.raises(GgufError, match="cannot be read"):
        read_header("a\0b.gguf")


def test_names_in_messages_are_short(tmp_path):
    """A key of a megabyte does not fill the screen."""
    path = write_bytes(
        tmp_path / "m.gguf", start(keys=1), encode_text("k" * MIB), struct.pack("<I", 99)
    )

    assert len(str(refusal(path))) < 500


def test_nested_arrays_are_walked_over(tmp_path):
    """Arrays of arrays, which the format allows, do not stop what follows."""
    path = write_gguf(tmp_path / "m.gguf", {"a": [[[1, 2], ["x", "y"]], [[]]], "b": 7})

    assert dict(read_header(path).metadata) == {"a": Skipped("array[array]", 2), "b": 7}


def test_large_vocabulary_is_skipped_fast_and_in_little_memory(tmp_path):
    """256k tokens, their scores and 500k merges cost seconds at most and no memory."""
    path = write_gguf(
        tmp_path / "m.gguf",
        {
            "tokenizer.ggml.tokens": [f"token{index}" for index in range(256_000)],
            "tokenizer.ggml.scores": Typed("float32", [0.0] * 256_000),
            "tokenizer.ggml.merges": [f"to ken{index}" for index in range(500_000)],
            "general.name": "behind the vocabulary",
        },
    )

    began = time.perf_counter()
    metadata = read_header(path).metadata

    assert time.perf_counter() - began < 3
    assert metadata["tokenizer.ggml.tokens"] == Skipped("array[string]", 256_000)
    assert metadata["tokenizer.ggml.merges"] == Skipped("array[string]", 500_000)
    assert metadata["general.name"] == "behind the vocabulary"
    assert peak_bytes(path) < 1 * MIB


def text_key(index: int, size: int) -> bytes:
    # One character outside the first plane makes CPython store 4 bytes for every other one.
    text = "😀" + "a" * (size - 4)
    return encode_text(f"k{index}") + struct.pack("<I", 8) + encode_text(text)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            lambda: [start(keys=16_384), *(text_key(i, 1000) for i in range(16_384))], id="texts"
        ),
        pytest.param(lambda: [start(keys=30), *(text_key(i, MIB) for i in range(30))], id="MiB"),
        pytest.param(
            lambda: [
                start(keys=200),
                *(array_key(11, 4096, f"k{i}") + b"\1\2\3\4\5\6\7\7" * 4096 for i in range(200)),
            ],
            id="arrays",
        ),
        pytest.param(
            lambda: [
                start(keys=100),
                *(array_key(8, 2000, f"k{i}") + bytes(16_000) for i in range(100)),
            ],
            id="arrays of empty strings",
        ),
        pytest.param(
            lambda: [
                start(tensors=32_768),
                *(
                    encode_text(f"{i:060}") + struct.pack("<I4QIQ", 4, 999, 999, 999, 999, 0, 2**62)
                    for i in range(32_768)
                ),
            ],
            id="tensors",
        ),
        pytest.param(
            lambda: [
                start(keys=1),
                array_key(9, 2**18),
                struct.pack("<IQ", 0, 0) * 2**18,
            ],
            id="empty inner arrays",
        ),
        pytest.param(lambda: [start(keys=1), array_key(8, 2**19), bytes(2**22)], id="no texts"),
    ],
)
def test_hostile_files_are_read_in_bounded_memory_and_time(tmp_path, pieces):
    """Files built to blow up stay below 50 MB and end within seconds."""
    path = write_bytes(tmp_path / "m.gguf", *pieces())

    began = time.perf_counter()
    with contextlib.suppress(GgufError):
        read_header(path)
    seconds = time.perf_counter() - began

    assert seconds < 20
    assert peak_bytes(path) < 50 * MIB


def test_header_beyond_64_mib_is_refused(tmp_path):
    """A sparse file of 1 TiB that is all one array ends at the limit."""
    path = write_bytes(tmp_path / "m.gguf", start(keys=1), array_key(0, 2**40 - 100))
    os.truncate(path, 2**40)

    error = refusal(path)

    assert error.offset == 49
    assert "lies beyond the 67108864 bytes that a header may fill" in error.message


SEED_METADATA = {**METADATA, "general.alignment": 32, "split.count": 1, "a.nested": [[1], ["x"]]}
SEEDS = [encode_header(SEED_METADATA, TENSORS, big_endian=big)[0] for big in (False, True)]
INTERESTING = [0, 1, 7, 8, 9, 13, 0xFF, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]


@st.composite
def mutated_headers(draw: st.DrawFn) -> bytes:
    """A valid header with some bytes, numbers or whole stretches replaced, inserted or cut."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.sampled_from(["byte", "u32", "u64", "cut", "insert", "repeat"]))
        if kind == "byte":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == "u32":
            data[at : at + 4] = (draw(st.sampled_from(INTERESTING)) % 2**32).to_bytes(4, "little")
        elif kind == "u64":
            data[at : at + 8] = draw(st.sampled_from(INTERESTING)).to_bytes(8, "little")
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=16))
        else:
            data[at:at] = data[max(0, at - 32) : at] * draw(st.integers(1, 50))
    return bytes(data)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=mutated_headers())
def test_any_mutation_gives_a_header_or_a_refusal(tmp_path, data):
    """Nothing but GgufError leaves the reader, and the memory stays that of a small file."""
    path = write_bytes(tmp_path / "m.gguf", data)

    tracemalloc.start()
    try:
        header = read_header(path)
        assert isinstance(header, GgufHeader)
        weight_bytes(header)
    except GgufError as error:
        assert str(path) in str(error)
        assert error.offset is None or 0 <= error.offset <= len(data)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2 * MIB


@pytest.mark.parametrize("big_endian", [False, True])
def test_reads_what_the_gguf_package_writes(tmp_path, big_endian):
    """Metadata and tensors written by llama.cpp's own package are read as they were given."""
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "m.gguf"
    endianess = gguf.GGUFEndian.BIG if big_endian else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "llama", endianess=endianess)
    writer.add_block_count(2)
    writer.add_head_count_kv([8, 0])
    writer.add_sliding_window_pattern([True, False])
    writer.add_rope_freq_base(500000.0)
    writer.add_uint64("a.uint64", 2**40)
    writer.add_token_list(["a", "b", "c"])
    writer.add_tensor("blk.0.a", numpy.zeros((3, 5), dtype=numpy.float32))
    writer.add_tensor(
        "blk.0.b", numpy.zeros((4, 34), numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    header = read_header(path)

    assert header.byte_order == ("big" if big_endian else "little")
    assert dict(header.metadata) == {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.attention.head_count_kv": (8, 0),
        "llama.attention.sliding_window_pattern": (True, False),
        "llama.rope.freq_base": 500000.0,
        "a.uint64": 2**40,
        "tokenizer.ggml.tokens": Skipped("array[string]", 3),
    }
    assert [(t.name, t.shape, t.type_name, t.nbytes, t.offset) for t in header.tensors] == [
        ("blk.0.a", (5, 3), "F32", 60, 0),
        ("blk.0.b", (32, 4), "Q8_0", 136, 64),
    ]
    assert header.data_bytes_missing == 0


def test_reads_a_split_model_of_the_gguf_package(tmp_path):
    """The package's own split files are found and summed."""
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    for index in range(5):
        writer.add_tensor(f"blk.{index}", numpy.zeros((3,), dtype=numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    header = read_header(tmp_path / "m-00001-of-00003.gguf")

    assert [tensor.part for tensor in header.tensors] == [0, 0, 1, 1, 2]
    assert weight_bytes(header) == {"F16": 5 * 6}
    assert header.data_bytes_missing == 0


def expected_value(value: Any) -> Any:
    """A recorded value as a float32 file can hold it."""
    if isinstance(value, list):
        return tuple(expected_value(item) for item in value)
    if isinstance(value, float):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return value


def test_every_recorded_model_comes_back(tmp_path):
    """The metadata that llama.cpp's converter wrote for 79 models survives a file."""
    models = json.loads(RECORDED.read_text())["models"]
    assert len(models) == 79

    for name, model in models.items():
        arch = model["arch"]
        path = write_truth_model(tmp_path / f"{name}.gguf", arch, model["gguf"])

        metadata = dict(read_header(path).metadata)

        assert metadata.pop("general.architecture") == arch
        expected = {f"{arch}.{key}": expected_value(value) for key, value in model["gguf"].items()}
        assert metadata == expected
        assert {k: type(v) for k, v in metadata.items()} == {
            k: type(v) for k, v in expected.items()
        }
