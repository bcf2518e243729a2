"""A GGUF file as a model: its header is read, its architecture's row found, its layers described.

    import_gguf("Qwen3-8B-Q4_K_M.gguf").spec

The spec is what the model keeps. Where llama.cpp is known to allocate something else for the same
file (a window it does not use, latents it decompresses), a warning says so.
"""

from __future__ import annotations

import os

from kvplan.errors import ImportRefused
from kvplan.importers.gguf.architectures import ARCHITECTURES, Architecture
from kvplan.importers.gguf.attention import Heads
from kvplan.importers.gguf.file import GgufError, GgufHeader, read_header
from kvplan.importers.gguf.hints import check_hints
from kvplan.importers.gguf.identity import (
    architecture_of,
    dtype,
    model_name,
    parameters,
    rope,
    vocabulary,
)
from kvplan.importers.gguf.keys import BUILD, RULE, Keys
from kvplan.importers.gguf.kinds import name_kinds
from kvplan.importers.gguf.layers import Layer, read_layers
from kvplan.importers.imported import Imported
from kvplan.spec.model import MAX_LAYERS, ModelSpec
from kvplan.spec.states import FieldError
from kvplan.spec.vocabulary import PLAIN_KIND


def import_gguf(path: str | os.PathLike[str], *, name: str | None = None) -> Imported:
    """Read a GGUF model, a single file or the first part of a split one.

    Args:
        path: the file.
        name: the model's name, where it is not to come from the file.

    Raises:
        GgufError: no readable GGUF header.
        ImportRefused: no language model, or a fact that is missing, contradicts another, or may
            shape the cache in a way that is not known.
    """
    header, problem = _header(path)
    keys = Keys(header, architecture_of(header))
    if problem:
        keys.warn("tensors-not-read", f"the number of parameters is not known: {problem}")
    try:
        spec = _spec(keys, name)
    except FieldError as error:
        raise ImportRefused(error.message, where=str(header.path)) from error
    return Imported(spec=spec, facts=tuple(keys.facts), warnings=tuple(keys.warnings))


def _header(path: str | os.PathLike[str]) -> tuple[GgufHeader, str | None]:
    """The header; without tensors, and with the reason, if parts of a split model are not there."""
    try:
        return read_header(path), None
    except GgufError as error:
        header = read_header(path, metadata_only=True)
        if header.split_count == 1:
            raise
        return header, error.message


def _spec(keys: Keys, name: str | None) -> ModelSpec:
    row = ARCHITECTURES.get(keys.architecture)
    check_hints(keys, row)
    if row is None:
        row = Architecture()
        keys.warn(
            "assumed-plain-attention",
            f"general.architecture {keys.architecture!r} is not known; no key hints at another"
            " layout, so every layer is taken to keep K and V of every token",
        )
    trunk, draft = _counts(keys, row)
    layers, heads = read_layers(keys, row, trunk, trunk + draft)
    loops = _loops(keys, row, trunk)
    kinds, names = name_kinds(layers)
    _note_kinds(keys, layers, names)
    return ModelSpec(
        name=name or model_name(keys),
        model_type=keys.architecture,
        parameters=parameters(keys),
        max_context=_noted(keys, "max_context", "context_length"),
        dtype=dtype(keys),
        heads=_heads(keys, heads),
        hidden_size=_noted(keys, "hidden_size", "embedding_length"),
        vocab_size=vocabulary(keys),
        rope=rope(keys),
        source=f"GGUF metadata of {_printable(keys.header.path.name)}",
        kinds=kinds,
        layers=tuple(names[:trunk]) * loops,
        draft_layers=tuple(names[trunk:]),
    )


def _counts(keys: Keys, row: Architecture) -> tuple[int, int]:
    """Layers of the model, and those of multi-token prediction, which block_count includes."""
    total = keys.required("block_count")
    if total > MAX_LAYERS:
        keys.refuse("block_count", f"is {total}, beyond the limit of {MAX_LAYERS} layers")
    if row.cross:
        decoder = keys.number("decoder_block_count")
        if decoder is not None and decoder != total:
            keys.warn(
                "llama-cpp-differs",
                f"the decoder has {decoder} layers, {BUILD} gives a cache to {total}",
            )
            total = min(decoder, MAX_LAYERS + 1)
            if total > MAX_LAYERS:
                keys.refuse("decoder_block_count", f"is {decoder}, beyond {MAX_LAYERS} layers")
    draft = keys.number("nextn_predict_layers", minimum=0) or 0
    if draft >= total:
        keys.refuse(
            "nextn_predict_layers", f"is {draft} of {total} layers, the model itself has none left"
        )
    keys.note("layers", keys.full("block_count"), total - draft)
    if draft:
        keys.note("draft_layers", keys.full("nextn_predict_layers"), draft)
    return total - draft, draft


def _loops(keys: Keys, row: Architecture, trunk: int) -> int:
    loops = (keys.number("num_loops") or 1) if row.loops else 1
    if trunk * loops > MAX_LAYERS:
        keys.refuse("num_loops", f"is {loops}, beyond the limit of {MAX_LAYERS} layers")
    if loops > 1:
        keys.note("layers", f"{keys.full('num_loops')}, each with its own cache: {RULE}")
    return loops


def _heads(keys: Keys, heads: Heads) -> int | None:
    if heads.common is not None:
        keys.note("heads", keys.full("attention.head_count"), heads.common)
    return heads.common


def _noted(keys: Keys, field: str, key: str) -> int | None:
    value = keys.number(key)
    if value is not None:
        keys.note(field, keys.full(key), value)
    return value


def _note_kinds(keys: Keys, layers: list[Layer], names: list[str]) -> None:
    seen: set[str] = set()
    for layer, name in zip(layers, names, strict=True):
        if name not in seen:
            seen.add(name)
            field = "attention" if name == PLAIN_KIND else f"kinds.{name}"
            for origin in layer.origin:
                keys.note(field, origin)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
