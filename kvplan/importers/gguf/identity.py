"""What kind of GGUF file this is, and the facts of a model beside its layers.

A GGUF file names no format for its cache: llama.cpp stores f16 unless told otherwise, whatever the
format of the weights, and so that default is recorded as the model's, with its origin.
"""

from __future__ import annotations

import math
import re

from kvplan.errors import ImportRefused
from kvplan.importers.gguf.architectures import NO_MODELS
from kvplan.importers.gguf.file import GgufHeader
from kvplan.importers.gguf.keys import BUILD, RULE, Keys, brief
from kvplan.importers.gguf.values import Skipped
from kvplan.spec.model import Rope

DTYPE = "float16"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TYPES = {
    "adapter": "a LoRA adapter: it keeps no cache of its own, read the model it belongs to",
    "mmproj": NO_MODELS["clip"],
    "imatrix": NO_MODELS["imatrix"],
}


def architecture_of(header: GgufHeader) -> str:
    """The architecture of a language model.

    Raises:
        ImportRefused: the file is something else, or does not say.
    """
    where = str(header.path)
    type_ = header.metadata.get("general.type", "model")
    if type_ != "model":
        what = _TYPES.get(type_) if isinstance(type_, str) else None
        raise ImportRefused(
            f"general.type is {brief(type_)}: this is {what or 'no language model'}", where=where
        )
    name = header.metadata.get("general.architecture")
    if name is None:
        raise ImportRefused("general.architecture is missing", where=where)
    if isinstance(name, str) and name in NO_MODELS:
        raise ImportRefused(
            f"general.architecture is {name!r}: this is {NO_MODELS[name]}", where=where
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ImportRefused(f"general.architecture is {brief(name)}, not a name", where=where)
    return name


def model_name(keys: Keys) -> str:
    """A short, lower-case name: from general.name, else its parts, else the file's name."""
    metadata = keys.header.metadata
    for names in (("general.name",), ("general.basename", "general.size_label")):
        texts = [text for key in names if isinstance(text := metadata.get(key), str)]
        slug = _slug("-".join(texts))
        if slug:
            keys.note("name", ", ".join(key for key in names if key in metadata), slug)
            return slug
    slug = _slug(keys.header.path.name.removesuffix(".gguf")) or _slug(keys.architecture)
    keys.note("name", "name of the file", slug)
    return slug


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:96].strip("-.")


def vocabulary(keys: Keys) -> int | None:
    """Tokens in the vocabulary, None if the file has none."""
    size, origin = keys.number("vocab_size"), keys.full("vocab_size")
    if size is None:
        origin = "tokenizer.ggml.tokens"
        tokens = keys.header.metadata.get(origin)
        if isinstance(tokens, Skipped):
            size = tokens.length
        elif isinstance(tokens, tuple):
            size = len(tokens)
    if not size:
        return None
    keys.note("vocab_size", origin, size)
    return size


def parameters(keys: Keys) -> int | None:
    """Number of parameters: as the file states it, else the elements of all tensors."""
    stated = keys.header.metadata.get("general.parameter_count")
    if type(stated) is int and stated > 0:
        keys.note("parameters", "general.parameter_count", stated)
        return stated
    total = sum(
        math.prod(tensor.shape)
        for tensor in keys.header.tensors
        if not tensor.name.startswith("rope_")  # factors of the rotary embedding, computed
    )
    if not total:
        return None
    keys.note("parameters", "elements of all tensors", total)
    return total


def rope(keys: Keys) -> Rope | None:
    """The rotary scaling, None if the file has none."""
    type_, name = keys.raw("rope.scaling.type"), "rope.scaling.type"
    if type_ is not None and (not isinstance(type_, str) or not _NAME.fullmatch(type_)):
        keys.refuse(name, f"is {brief(type_)}, not a name")
    factor_key = (
        "rope.scaling.factor"
        if keys.raw("rope.scaling.factor") is not None
        else "rope.scale_linear"
    )
    factor = keys.raw(factor_key)
    if factor is not None and (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not 0 <= factor < math.inf
    ):
        keys.refuse(factor_key, f"is {brief(factor)}, not a factor")
    if type_ == "none" or not (type_ or factor):
        return None
    origin = ", ".join(
        keys.full(key)
        for key in (name, factor_key, "rope.scaling.original_context_length")
        if keys.raw(key) is not None
    )
    if type_ is None:
        origin = f"{origin}; linear: {RULE}"
    keys.note("rope", origin)
    return Rope(
        type=str(type_ or "linear"),
        factor=float(factor) if factor else None,
        original_max_context=keys.number("rope.scaling.original_context_length"),
    )


def dtype(keys: Keys) -> str:
    """The format of the cache unless a command names another."""
    keys.note(
        "dtype", f"default cache type f16 of {BUILD}, whatever the format of the weights", DTYPE
    )
    return DTYPE
