"""Writes small GGUF files for tests, well-formed or hostile, with nothing taken from the reader.

    write_gguf(path, {"general.architecture": "llama", "llama.block_count": 2},
               tensors=[("token_embd.weight", (64, 8), F16)])

Python values become the types that llama.cpp's converter uses: uint32 for counts, int32 for
negative numbers, 64 bits where those do not reach, float32, bool, string, and arrays of one of
them. `Typed` asks for another type. Tensor data is a hole of zeros at the end of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

F32, F16, Q4_0, Q8_0, Q4_K, Q6_K, BF16, MXFP4 = 0, 1, 2, 8, 12, 14, 30, 39

# bytes of (block elements, block) as ggml-common.h lays the blocks out
BLOCKS = {
    F32: (1, 4),
    F16: (1, 2),
    Q4_0: (32, 2 + 16),  # float16 scale, 32 x 4 bits
    Q8_0: (32, 2 + 32),  # float16 scale, 32 x 8 bits
    Q4_K: (256, 2 + 2 + 12 + 128),  # two float16 scales, 8 x (6 + 6) bits, 256 x 4 bits
    Q6_K: (256, 128 + 64 + 16 + 2),  # 256 x 4 bits, 256 x 2 bits, 16 x 8 bits, float16 scale
    BF16: (1, 2),
    MXFP4: (32, 1 + 16),  # 8-bit exponent, 32 x 4 bits
}

TYPE_NUMBERS = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "uint32": 4,
    "int32": 5,
    "float32": 6,
    "bool": 7,
    "string": 8,
    "array": 9,
    "uint64": 10,
    "int64": 11,
    "float64": 12,
}
_CHARACTERS = "BbHhIifB  Qqd"  # of struct, by type number; a bool as B so that 2 can be written
ALIGNMENT = 32

TensorSpec = tuple[str, Sequence[int], int]


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type spelled out; for a sequence, `type_name` is the element's."""

    type_name: str
    value: Any


def write_gguf(
    path: Path | str,
    metadata: Mapping[str, Any],
    tensors: Sequence[TensorSpec] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
    with_data: bool = True,
) -> Path:
    """Write a whole file and return its path; without data it ends after the tensor infos.

    `tensors` are (name, shape in ggml's order, type number); a type outside BLOCKS takes 0 bytes.
    """
    header, data_bytes = encode_header(metadata, tensors, version=version, big_endian=big_endian)
    path = Path(path)
    with path.open("wb") as file:
        file.write(header)
        if with_data:
            file.truncate(padded(len(header), metadata.get("general.alignment")) + data_bytes)
    return path


def write_truth_model(path: Path | str, arch: str, gguf_dict: Mapping[str, Any]) -> Path:
    """Write metadata recorded without the architecture's prefix as a model file with it."""
    metadata = {"general.architecture": arch}
    metadata.update({f"{arch}.{key}": value for key, value in gguf_dict.items()})
    return write_gguf(path, metadata)


def encode_header(
    metadata: Mapping[str, Any],
    tensors: Sequence[TensorSpec] = (),
    *,
    version: int = 3,
    big_endian: bool = False,
) -> tuple[bytes, int]:
    """The bytes from the magic to the last tensor info, and the size of the data behind them."""
    order = ">" if big_endian else "<"
    out = [b"GGUF", struct.pack(order + "IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        number, body = encode_value(value, order)
        out += [encode_text(key, order), struct.pack(order + "I", number), body]
    offset = 0
    for name, shape, ggml_type in tensors:
        out.append(encode_text(name, order))
        out.append(struct.pack(f"{order}I{len(shape)}Q", len(shape), *shape))
        out.append(struct.pack(order + "IQ", ggml_type, offset))
        elements = 1
        for dimension in shape:
            elements *= dimension
        block_elements, block_bytes = BLOCKS.get(ggml_type, (1, 0))
        nbytes = elements // block_elements * block_bytes
        offset += padded(nbytes, metadata.get("general.alignment"))
    return b"".join(out), offset


def padded(size: int, alignment: int | None = None) -> int:
    """`size` rounded up to the alignment of a file's data section, 32 unless it says otherwise."""
    step = alignment if isinstance(alignment, int) and alignment > 0 else ALIGNMENT
    return -(-size // step) * step


def encode_text(text: str | bytes, order: str = "<") -> bytes:
    """A length of 8 bytes and the text; bytes are written as they are, valid UTF-8 or not."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(order + "Q", len(raw)) + raw


def encode_value(value: Any, order: str = "<") -> tuple[int, bytes]:
    """Type number and bytes of a metadata value."""
    asked = None
    if isinstance(value, Typed):
        asked, value = TYPE_NUMBERS[value.type_name], value.value
    if isinstance(value, list | tuple):
        item_type = _item_type(value) if asked is None else asked
        items = b"".join(_encode_item(item, item_type, order) for item in value)
        return 9, struct.pack(order + "IQ", item_type, len(value)) + items
    number = _scalar_type(value) if asked is None else asked
    return number, _encode_item(value, number, order)


def _encode_item(value: Any, number: int, order: str) -> bytes:
    if number == TYPE_NUMBERS["array"]:
        return encode_value(value, order)[1]
    if number == TYPE_NUMBERS["string"]:
        return encode_text(value, order)
    return struct.pack(order + _CHARACTERS[number], value)


def _scalar_type(value: Any) -> int:
    if isinstance(value, str | bytes):
        return TYPE_NUMBERS["string"]
    if isinstance(value, bool):
        return TYPE_NUMBERS["bool"]
    if isinstance(value, float):
        return TYPE_NUMBERS["float32"]
    if isinstance(value, int):
        return _integer_type(value, value)
    raise TypeError(f"GGUF has no type for {value!r}")


def _integer_type(lowest: int, highest: int) -> int:
    if lowest >= 0:
        return TYPE_NUMBERS["uint32" if highest < 2**32 else "uint64"]
    small = lowest >= -(2**31) and highest < 2**31
    return TYPE_NUMBERS["int32" if small else "int64"]


def _item_type(items: Sequence[Any]) -> int:
    """The one type of an array: int32 for whole numbers that fit, as the converter writes them."""
    if not items:
        return TYPE_NUMBERS["int32"]
    if any(isinstance(item, list | tuple | Typed) for item in items):
        return TYPE_NUMBERS["array"]
    if all(type(item) is int for item in items):
        lowest, highest = min(items), max(items)
        fits = lowest >= -(2**31) and highest < 2**31
        return TYPE_NUMBERS["int32"] if fits else _integer_type(lowest, highest)
    types = {_scalar_type(item) for item in items}
    if len(types) != 1:
        raise TypeError(f"an array has one element type, not {items!r}")
    return types.pop()
