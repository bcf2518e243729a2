"""Bytes of a model's weights, by element format, without reading a weight.

Looked up where the model was found, the surest first:

    headers of the safetensors files, or the tensor list of a GGUF file    every byte, by format
    the index of the weights, where the files are not all there            the total it states
    headers of the files on the Hub, only when asked for                   every byte, by format
    parameters of the spec times its own format                            unquantised models

A model named by its Hugging Face id is looked up in the local cache even if the catalogue knows it,
because a quantised copy shares its spec and not its weights.
The source is named with the figure; None means that nothing says.
Source: safetensors index files as transformers 4 and 5 write them (`metadata.total_size`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from kvplan.dtypes import find_dtype
from kvplan.errors import InputError
from kvplan.importers.folder import CONFIG_NAMES, is_gguf
from kvplan.importers.safetensors import file_bytes, header_bytes, parse_object
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec

# Transformers' index and weights, then Mistral's own.
INDEX_NAMES = ("model.safetensors.index.json", "consolidated.safetensors.index.json")
# Weights before safetensors: only the total of their index can be read without running them.
_OLD_INDEX = "pytorch_model.bin.index.json"
_INDEX_LIMIT = 64 * 2**20  # the largest in use name 10^5 tensors in some 10 MB
# What ids of quantised copies say; their parameters are not in the format of the spec.
_QUANTISED = re.compile(
    r"(?:^|[-_.])(?:fp8|nvfp4|mxfp[468]|fp4|int[248]|awq|gptq|bnb|gguf|exl[23]|mlx|w\d+a\d+|\d-?bits?"
    r"|q\d_\w+|autoround|quantized|hqq|aqlm|quark|modelopt)(?=[-_.]|$)",
    re.IGNORECASE,
)
_PART = re.compile(r"(?P<stem>.+)-\d+-of-(?P<count>\d+)\.safetensors")


class Weights(NamedTuple):
    """Bytes of all weights, by format (None where only the total is known), and who says so."""

    bytes: int
    by_dtype: Mapping[str, int] | None
    source: str


def weights_of(
    spec: ModelSpec, place: str, *, hf_id: str | None = None, allow_network: bool = False
) -> Weights | None:
    """The weights of a model found at `place` (a file or folder), or from its parameter count.

    None when nothing says.

    Args:
        spec: the model.
        place: where it was found.
        hf_id: the Hugging Face id it was asked for by.
        allow_network: for an id without weights here, read their headers on the Hub.

    Raises:
        InputError: a weights file that is not what its name says, or a Hub that does not answer.
    """
    if is_gguf(place):
        return _from_gguf(place) or _from_parameters(spec)
    folder = _folder(place, hf_id)
    found = (_from_safetensors(folder) or _from_index(folder)) if folder else None
    if found is None and allow_network and hf_id is not None:
        found = _from_hub(hf_id)
    if found is None and not _says_quantised(spec, hf_id):
        found = _from_parameters(spec)
    return found


def _says_quantised(spec: ModelSpec, hf_id: str | None) -> bool:
    """Whether the name of the checkpoint speaks of a quantisation: its id, or the spec's own."""
    names = [hf_id] if hf_id else [spec.name, *spec.hf_ids[:1]]
    return any(_QUANTISED.search(name) for name in names)


def _folder(place: str, hf_id: str | None) -> str | None:
    """The folder in which weights may lie: a config's, or the cached snapshot of an id."""
    if os.path.isdir(place):
        return place
    if os.path.basename(place) in CONFIG_NAMES:
        return os.path.dirname(place) or os.curdir
    if hf_id is None:
        return None
    from kvplan.importers.hub import find_snapshot

    return find_snapshot(hf_id)


def _from_gguf(path: str) -> Weights | None:
    from kvplan.importers.gguf.file import GgufError, read_header, weight_bytes

    try:
        by_type = weight_bytes(read_header(path))
    except GgufError:
        if read_header(path, metadata_only=True).split_count == 1:
            raise
        return None  # parts of a split model are not there
    if not by_type:
        return None
    known = {name: amount for name, amount in by_type.items() if amount is not None}
    if len(known) < len(by_type):
        unknown = ", ".join(name for name in by_type if name not in known)
        raise InputError(f"tensors of {unknown}: their size is not known", where=path)
    return Weights(sum(known.values()), known, "tensor list of the GGUF file")


def _from_safetensors(folder: str) -> Weights | None:
    """The headers of every file of the model; None if there is none, or one lacks."""
    index = _index(folder)
    names = set(_weight_map(index).values()) if index else _files(folder)
    paths = [os.path.join(folder, name) for name in sorted(names)]
    if not paths or not all(os.path.isfile(path) for path in paths):
        return None
    plural = "header" if len(paths) == 1 else f"headers of {len(paths)} files"
    return _summed(map(file_bytes, paths), f"safetensors {plural}")


def _files(folder: str) -> set[str]:
    """Names of one set of weights without an index: transformers' own, else whatever is there."""
    try:
        found = {name for name in os.listdir(folder) if name.endswith(".safetensors")}
    except OSError:
        return set()
    for stem in ("model", "consolidated"):
        if f"{stem}.safetensors" in found:
            return {f"{stem}.safetensors"}
    parts = [match for name in sorted(found) if (match := _PART.fullmatch(name))]
    if not parts:
        return found
    stem, count = parts[0]["stem"], parts[0]["count"]
    if int(count) > 100_000:
        return set()
    width = len(count)
    return {f"{stem}-{i:0{width}}-of-{count}.safetensors" for i in range(1, int(count) + 1)}


def _from_index(folder: str) -> Weights | None:
    for name in (*INDEX_NAMES, _OLD_INDEX):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        metadata = _read_object(path).get("metadata")
        size = metadata.get("total_size") if isinstance(metadata, dict) else None
        # Some tools write it as 1.5e10.
        if isinstance(size, float) and size.is_integer():
            size = int(size)
        if type(size) is int and 0 < size < 2**53:
            return Weights(size, None, f"total_size of {name}")
    return None


def _from_hub(hf_id: str) -> Weights | None:
    from kvplan.importers.hub import remote_weight_headers

    headers = remote_weight_headers(hf_id)
    where = f"{hf_id} on the Hub"
    return _summed((header_bytes(header, where) for header in headers), f"headers of {where}")


def _from_parameters(spec: ModelSpec) -> Weights | None:
    dtype = find_dtype(spec.dtype) if spec.dtype else None
    if spec.parameters is None or dtype is None or spec.quant_method is not None:
        return None
    amount = dtype.vectors_bytes(1, spec.parameters)
    return Weights(amount, {dtype.name: amount}, f"{spec.parameters:,} parameters in {dtype.name}")


def _summed(files: Iterable[Mapping[str, int]], source: str) -> Weights | None:
    """All files together; None for files without a tensor."""
    total: dict[str, int] = {}
    for by_dtype in files:
        for name, amount in by_dtype.items():
            total[name] = total.get(name, 0) + amount
    return Weights(sum(total.values()), total, source) if total else None


def _index(folder: str) -> str | None:
    paths = (os.path.join(folder, name) for name in INDEX_NAMES)
    return next((path for path in paths if os.path.isfile(path)), None)


def _weight_map(index: str) -> dict[str, str]:
    found = _read_object(index).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise InputError("has no weight_map of tensor names to file names", where=index)
    outside = next((n for n in found.values() if os.path.basename(n) != n or n in ("", "..")), None)
    if outside is not None:
        raise InputError(f"names a weight file outside its own folder: {outside!r}", where=index)
    return found


def _read_object(path: str) -> dict[str, object]:
    try:
        if os.path.getsize(path) > _INDEX_LIMIT:
            raise InputError(f"is larger than {_INDEX_LIMIT:,} bytes", where=path)
        with open(path, "rb") as file:
            return parse_object(file.read(), path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None
