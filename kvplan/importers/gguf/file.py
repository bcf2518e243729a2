"""The header of a GGUF file: metadata and tensor infos, never the weights.

Why an own reader: the `gguf` package (0.19.0, `gguf_reader.py`) needs numpy and keeps a numpy view
per array element, token and tensor, so 256k token strings cost it 320 MiB, and a tiny file that
claims an array of two million bytes costs it 1.7 GiB because no length is held against the file.
A file that ends after its header, all that a plan needs, it refuses as soon as there is a tensor,
and a string that runs past the end of the file it silently cuts.

    magic "GGUF" | version u32 | tensor count u64 | key count u64
    keys:    name, value type u32, value
    tensors: name, dimension count u32, dimensions u64, type u32, data offset u64
    padding to `general.alignment` | data

Versions 2 and 3, both byte orders. A model split over `NAME-00001-of-00003.gguf` and so on is read
through its first part, which alone holds the model's metadata (llama.cpp's `gguf-split`).
Offsets and sizes are bytes. Source of the format: ggml `docs/gguf.md`.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kvplan.arithmetic import round_up
from kvplan.importers.gguf.tensors import TensorInfo, read_tensor_infos
from kvplan.importers.gguf.values import (
    Budget,
    ByteOrder,
    Cursor,
    GgufError,
    Skipped,
    Value,
    shown,
)

__all__ = ["GgufError", "GgufHeader", "Skipped", "TensorInfo", "read_header", "weight_bytes"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32  # what the format prescribes where `general.alignment` is absent
_PART_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What the header of a GGUF model says.

    Attributes:
        path: the file that was asked for, the first part of a split model.
        version: format version, 2 or 3.
        byte_order: of every number in the file.
        metadata: keys in file order; values are scalars, tuples (small arrays) or `Skipped`.
        tensors: infos of all parts in file order; empty unless `tensors_read`.
        tensors_read: False if only the metadata was asked for.
        parts: the files that were read, in order.
        split_count: files the model is split into, 1 for a single file.
        data_bytes_missing: bytes that the tensors need beyond the end of their files, 0 for whole
            files, None unless `tensors_read`. Tensors of unknown type count up to their start.
    """

    path: Path
    version: int
    byte_order: ByteOrder
    metadata: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    tensors_read: bool
    parts: tuple[Path, ...]
    split_count: int
    data_bytes_missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    version: int
    byte_order: ByteOrder
    metadata: dict[str, Value]
    tensors: list[TensorInfo]
    data_bytes_missing: int


def read_header(path: str | os.PathLike[str], *, metadata_only: bool = False) -> GgufHeader:
    """Read the header of a GGUF file and of the other parts of the same model beside it.

    Args:
        path: a single file, or the first part of a split model.
        metadata_only: stop after the metadata; no other part is opened, none need be there.

    Raises:
        GgufError: not a GGUF file of a known version, a header that is cut off, contradicts itself
            or exceeds every sensible size, or a part that is missing or belongs elsewhere.
    """
    path = Path(path)
    budget, names = Budget(), set[str]()
    first = _read_part(path, 0, None if metadata_only else names, budget)
    split_count = _split_count(path, first.metadata)
    parts, tensors = [path], first.tensors
    missing = first.data_bytes_missing
    if not metadata_only:
        for index in range(1, split_count):
            part_path = _part_path(path, index, split_count)
            if not part_path.exists():
                raise GgufError(
                    f"part {index + 1} of {split_count} is missing: {part_path.name}",
                    path=path,
                    hint="put all parts into one folder",
                )
            part = _read_part(part_path, index, names, budget)
            _check_part(part_path, part.metadata, index, split_count)
            parts.append(part_path)
            tensors.extend(part.tensors)
            missing += part.data_bytes_missing
        claimed = first.metadata.get("split.tensors.count")
        if split_count > 1 and claimed is not None and claimed != len(tensors):
            raise GgufError(
                f"split.tensors.count is {claimed!r}, the {split_count} parts hold {len(tensors)}",
                path=path,
            )
    return GgufHeader(
        path=path,
        version=first.version,
        byte_order=first.byte_order,
        metadata=MappingProxyType(first.metadata),
        tensors=tuple(tensors),
        tensors_read=not metadata_only,
        parts=tuple(parts),
        split_count=split_count,
        data_bytes_missing=None if metadata_only else missing,
    )


def _read_part(path: Path, index: int, names: set[str] | None, budget: Budget) -> _Part:
    """One file; `names` collects the tensor names, None leaves the tensor infos unread."""
    if budget.header_bytes <= 0:
        raise GgufError("the headers of all parts together are larger than any model's", path=path)
    data, size = _map(path, budget.header_bytes)
    with data:
        cursor = Cursor(path, data, file_size=size, budget=budget)
        part = _read_chain(cursor, size, index, names, budget)
        budget.header_bytes -= cursor.pos
        return part


def _map(path: Path, limit: int) -> tuple[mmap.mmap, int]:
    """The first `limit` bytes of a file, mapped, and the size of the whole file."""
    try:
        # Asked before opening: opening a pipe would wait for its writer.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise GgufError(f"a GGUF file is expected, this is {kind}", path=path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise GgufError("the file is empty", path=path, offset=0)
            return mmap.mmap(file.fileno(), min(size, limit), access=mmap.ACCESS_READ), size
    except (OSError, ValueError) as error:
        # ValueError: a path with a NUL byte, or a file that shrinks while it is opened.
        raise GgufError(f"the file cannot be read: {error}", path=path) from error


def _read_chain(
    cursor: Cursor, size: int, index: int, names: set[str] | None, budget: Budget
) -> _Part:
    version, byte_order = _version(cursor)
    tensor_count = cursor.u64("the tensor count")
    key_count = cursor.u64("the key count")
    metadata = _metadata(cursor, key_count, budget)
    if names is None:
        tensors, missing = list[TensorInfo](), 0
    else:
        tensors = read_tensor_infos(cursor, tensor_count, part=index, seen=names, budget=budget)
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        assert isinstance(alignment, int)
        data_start = round_up(cursor.pos, alignment)
        data_bytes = max((tensor.offset + (tensor.nbytes or 0) for tensor in tensors), default=0)
        missing = max(0, data_start + data_bytes - size) if data_bytes else 0
    return _Part(
        version=version,
        byte_order=byte_order,
        metadata=metadata,
        tensors=tensors,
        data_bytes_missing=missing,
    )


def _version(cursor: Cursor) -> tuple[int, ByteOrder]:
    magic = cursor.raw(4, "the magic")
    if magic != MAGIC:
        cursor.fail(f"the file begins with {magic!r}, a GGUF file with {MAGIC!r}", at=0)
    raw = cursor.raw(4, "the version")
    byte_order: ByteOrder = "little"
    # Versions are small, so the half that holds the number tells the byte order.
    if int.from_bytes(raw, "little") & 0xFFFF == 0:
        byte_order = "big"
    version = int.from_bytes(raw, byte_order)
    cursor.set_byte_order(byte_order)
    if version == 1:
        cursor.fail(
            "GGUF version 1 is not read, its counts have 4 bytes",
            at=4,
            hint="convert the model again, llama.cpp itself dropped version 1",
        )
    if version not in VERSIONS:
        cursor.fail(f"GGUF version {version} is not known, only 2 and 3 are", at=4)
    return version, byte_order


def _metadata(cursor: Cursor, count: int, budget: Budget) -> dict[str, Value]:
    if count > budget.keys:
        cursor.fail(f"the header claims {count} metadata keys, beyond the limit", at=16)
    budget.keys -= count
    metadata: dict[str, Value] = {}
    for _ in range(count):
        start = cursor.pos
        key = cursor.name("a metadata key")
        if key in metadata:
            cursor.fail(f"the key {shown(key)} is there twice", at=start)
        value = cursor.value(cursor.u32(f"the value type of {shown(key)}"), key)
        if key == "general.alignment" and not _is_alignment(value):
            cursor.fail(f"general.alignment is {value!r}, not a power of two", at=start)
        metadata[key] = value
    return metadata


def _is_alignment(value: Value) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0


def _split_count(path: Path, metadata: Mapping[str, Value]) -> int:
    """Files of the model; refuses any part but the first."""
    count = metadata.get("split.count", 1)
    if type(count) is not int or count < 1:
        raise GgufError(f"split.count is {count!r}, not a count of files", path=path)
    if count > 1 and metadata.get("split.no") != 0:
        number = metadata.get("split.no")
        raise GgufError(
            f"split.no is {number!r}: not the first of {count} parts",
            path=path,
            hint=f"read {_part_path(path, 0, count).name}, which holds the metadata",
        )
    return count


def _check_part(path: Path, metadata: Mapping[str, Value], index: int, count: int) -> None:
    for key, expected in (("split.no", index), ("split.count", count)):
        if metadata.get(key) != expected:
            raise GgufError(f"{key} is {metadata.get(key)!r}, expected {expected}", path=path)


def _part_path(path: Path, index: int, count: int) -> Path:
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise GgufError(
            f"the model is split into {count} parts, but the name does not tell the other parts'",
            path=path,
            hint=f"name the parts NAME-00001-of-{count:05d}.gguf and so on",
        )
    return path.with_name(f"{match['stem']}-{index + 1:05d}-of-{count:05d}.gguf")


def weight_bytes(header: GgufHeader) -> dict[str, int | None]:
    """Bytes of all tensors by type name, in order of first appearance; None where unknown.

    Raises:
        ValueError: the header was read without its tensor infos.
    """
    if not header.tensors_read:
        raise ValueError(f"{header.path}: weight bytes need a header with its tensor infos")
    totals: dict[str, int | None] = {}
    for tensor in header.tensors:
        total = totals.get(tensor.type_name, 0)
        if total is None or tensor.nbytes is None:
            totals[tensor.type_name] = None
        else:
            totals[tensor.type_name] = total + tensor.nbytes
    return totals
