"""The header of a safetensors file: bytes of each element format, without reading a weight.

    header length u64 | JSON: tensor name -> {dtype, shape, data_offsets: [begin, end)} | data

Only the header is read, so a file cut off behind it still answers. What it says must hold together:
the tensors lie one behind the other without hole or overlap, as the format demands, and each takes
the bytes that its shape and format make. Offsets are bytes from the start of the data.
Source: safetensors 0.4 to 0.7 (format documentation, formats). It allows a header of 100 MB; 10^5
tensors in one file, more than any published has, take some 15 MB.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.errors import InputError

HEADER_LIMIT = 32 * 2**20
_MOST_PARTS = 2**22  # brackets and commas; a header has nine per tensor
_LARGEST_FILE = 2**48  # 256 TiB: no file system at hand holds a larger one

# Bits of an element, and the name kvplan prints; any other format keeps its own, in lower case.
_FORMATS = {
    "F64": (64, "float64"), "F32": (32, "float32"), "F16": (16, "float16"),
    "BF16": (16, "bfloat16"),
    "F8_E4M3": (8, "fp8_e4m3"), "F8_E5M2": (8, "fp8_e5m2"), "F8_E8M0": (8, "fp8_e8m0"),
    "F6_E2M3": (6, "fp6_e2m3"), "F6_E3M2": (6, "fp6_e3m2"), "F4": (4, "fp4_e2m1"),
    "I64": (64, "int64"), "I32": (32, "int32"), "I16": (16, "int16"), "I8": (8, "int8"),
    "U64": (64, "uint64"), "U32": (32, "uint32"), "U16": (16, "uint16"), "U8": (8, "uint8"),
    "C64": (64, "complex64"), "BOOL": (8, "bool"),
}  # fmt: skip


def file_bytes(path: str) -> dict[str, int]:
    """Bytes by format of one safetensors file.

    Raises:
        InputError: it cannot be read, is no such file, or its header contradicts itself.
    """
    return header_bytes(read_header(path), path)


def read_header(path: str) -> dict[str, Any]:
    """The header of a file as plain data.

    Raises:
        InputError: as for `file_bytes`.
    """
    try:
        if not os.path.isfile(path):
            raise InputError("is no regular file", where=path)
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            room = os.fstat(file.fileno()).st_size - 8
            if len(start) < 8 or not 2 <= length <= min(HEADER_LIMIT, room):
                raise InputError(
                    f"is no safetensors file: a header of {length:,} bytes in a file of"
                    f" {max(room, 0):,}",
                    where=path,
                )
            return parse_object(file.read(length), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None


def header_bytes(header: Mapping[str, Any], where: str) -> dict[str, int]:
    """Bytes by format of the tensors of one header.

    Raises:
        InputError: a tensor whose bytes cannot be, or that overlaps another.
    """
    total: dict[str, int] = {}
    places: list[tuple[int, int, str]] = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end, dtype = _tensor(name, tensor, where)
        label = _FORMATS[dtype][1] if dtype in _FORMATS else dtype.lower()
        total[label] = total.get(label, 0) + end - begin
        places.append((begin, end, name))
    _check_places(places, where)
    return total


def _tensor(name: str, tensor: Any, where: str) -> tuple[int, int, str]:
    """Begin, end and format of one tensor."""
    given = tensor if isinstance(tensor, dict) else {}
    parts: list[Any] = [given.get(key) for key in ("dtype", "shape", "data_offsets")]
    dtype, shape, offsets = parts
    if not (isinstance(dtype, str) and _are_counts(shape) and _are_counts(offsets, 2)):
        raise InputError(f"tensor {name!r} has no dtype, shape and data_offsets", where=where)
    begin, end = offsets
    if not begin <= end <= _LARGEST_FILE:
        raise InputError(
            f"tensor {name!r} has impossible data_offsets {begin} to {end}", where=where
        )
    if dtype in _FORMATS:
        bits = math.prod(shape) * _FORMATS[dtype][0]
        if bits != 8 * (end - begin):
            takes = f"{bits:,} bits" if bits % 8 else f"{bits // 8:,} bytes"
            raise InputError(
                f"tensor {name!r} of shape {shape} in {dtype} takes {takes}, its"
                f" data_offsets say {end - begin:,}",
                where=where,
            )
    return begin, end, dtype


def _are_counts(values: Any, length: int | None = None) -> bool:
    """A short list of whole numbers that are not negative."""
    return (
        isinstance(values, list)
        and len(values) <= 64
        and length in (None, len(values))
        and all(type(value) is int and 0 <= value < 2**63 for value in values)
    )


def _check_places(places: Iterable[tuple[int, int, str]], where: str) -> None:
    """One tensor behind the other, from the first byte on."""
    expected = 0
    for begin, end, name in sorted(places):
        if begin != expected:
            what = "overlaps another" if begin < expected else "leaves a hole before it"
            raise InputError(f"tensor {name!r} at {begin:,} {what}", where=where)
        expected = end


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """A JSON object in which no key stands twice.

    Raises:
        InputError: it is none, or of so many values that memory would not hold them.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice, times = Counter(key for key, _ in pairs).most_common(1)[0]
            raise InputError(f"key {twice!r} stands {times} times", where=where)
        return found

    if sum(map(data.count, (b"[", b"{", b","))) > _MOST_PARTS:
        raise InputError("holds more values than any model has tensors", where=where)
    try:
        found = json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise InputError("is not valid JSON", where=where) from None
    except MemoryError:
        raise InputError("takes more memory to read than there is", where=where) from None
    if not isinstance(found, dict):
        raise InputError("is not a JSON object", where=where)
    return found
