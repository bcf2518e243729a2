"""Bytes of a model's weights, by element format, without reading a weight.

A safetensors file begins with a header that lists every tensor's format and place: only that is
read. Where the files themselves are missing, their index still states the total. Where both are
missing, the parameter count times the model's own format is what remains, and is named as such.
Source: safetensors 0.4 to 0.6 (format documentation and its limit of 100 MB for a header).
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.dtypes import find_dtype
from kvplan.errors import InputError
from kvplan.spec.model import ModelSpec

INDEX_NAME = "model.safetensors.index.json"
_HEADER_LIMIT = 100_000_000
_INDEX_LIMIT = 256 * 2**20
# Formats of safetensors under the names kvplan prints; any other keeps its own, in lower case.
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


class Weights(NamedTuple):
    """Bytes of all weights, by format (None where only the total is known), and how they are known."""

    bytes: int
    by_dtype: Mapping[str, int] | None
    source: str


def weights_of(spec: ModelSpec, place: str) -> Weights | None:
    """The weights of a model found at `place` (a file or folder), or from its parameter count.

    None when nothing says.

    Raises:
        InputError: a weights file that is not what its name says.
    """
    if place.lower().endswith(".gguf") and os.path.isfile(place):
        return _from_gguf(place)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if os.path.basename(place) in ("config.json", "params.json") or os.path.isdir(place):
        return _from_safetensors(folder) or _from_index(folder) or _from_parameters(spec)
    return _from_parameters(spec)


def _from_gguf(path: str) -> Weights:
    from kvplan.importers.gguf_file import read_header, weight_bytes

    by_type = weight_bytes(read_header(path))
    unknown = [name for name, amount in by_type.items() if amount is None]
    if unknown:
        raise InputError(f"tensors of {', '.join(unknown)}: their size is not known", where=path)
    known = {name: amount for name, amount in by_type.items() if amount is not None}
    return Weights(sum(known.values()), known, "tensor list of the GGUF file")


def _from_safetensors(folder: str) -> Weights | None:
    """Every shard that the index names, or every safetensors file of the folder; None if one lacks."""
    index = os.path.join(folder, INDEX_NAME)
    if os.path.isfile(index):
        shards = sorted(set(_weight_map(index).values()))
        paths = [os.path.join(folder, name) for name in shards]
    else:
        paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*.safetensors")))
    if not paths or not all(os.path.isfile(path) for path in paths):
        return None
    total: dict[str, int] = {}
    for path in paths:
        for name, amount in _header_bytes(path).items():
            total[name] = total.get(name, 0) + amount
    plural = "header" if len(paths) == 1 else f"headers of {len(paths)} files"
    return Weights(sum(total.values()), total, f"safetensors {plural}")


def _from_index(folder: str) -> Weights | None:
    index = os.path.join(folder, INDEX_NAME)
    if not os.path.isfile(index):
        return None
    metadata = _json(index, _INDEX_LIMIT).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if (
        not isinstance(size, (int, float))
        or isinstance(size, bool)
        or size <= 0
        or size != int(size)
    ):
        return None
    return Weights(int(size), None, f"total_size of {INDEX_NAME}")


def _from_parameters(spec: ModelSpec) -> Weights | None:
    dtype = find_dtype(spec.dtype) if spec.dtype else None
    if spec.parameters is None or dtype is None or spec.quant_method is not None:
        return None
    amount = dtype.vectors_bytes(1, spec.parameters)
    source = f"{spec.parameters:,} parameters in {dtype.name}"
    return Weights(amount, {dtype.name: amount}, source)


def _header_bytes(path: str) -> dict[str, int]:
    """Bytes by format of one safetensors file."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= _HEADER_LIMIT or length > os.path.getsize(path) - 8:
                raise InputError(f"is no safetensors file (header of {length:,} bytes)", where=path)
            header = _parse(file.read(length), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None
    total: dict[str, int] = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        try:
            begin, end = tensor["data_offsets"]
            dtype = tensor["dtype"]
            amount = end - begin
        except (TypeError, KeyError, ValueError):
            raise InputError(f"tensor {name!r} has no data_offsets or dtype", where=path) from None
        if not isinstance(amount, int) or amount < 0 or not isinstance(dtype, str):
            raise InputError(f"tensor {name!r} has impossible data_offsets", where=path)
        label = _NAMES.get(dtype, dtype.lower())
        total[label] = total.get(label, 0) + amount
    return total


def _weight_map(index: str) -> dict[str, str]:
    found = _json(index, _INDEX_LIMIT).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise InputError("has no weight_map of tensor names to file names", where=index)
    if any(os.path.basename(name) != name for name in found.values()):
        raise InputError("names weight files outside its own folder", where=index)
    return found


def _json(path: str, limit: int) -> dict[str, Any]:
    try:
        if os.path.getsize(path) > limit:
            raise InputError(f"is larger than {limit:,} bytes", where=path)
        with open(path, "rb") as file:
            return _parse(file.read(), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("is not valid JSON", where=path) from None
    if not isinstance(found, dict):
        raise InputError("is not a JSON object", where=path)
    return found
