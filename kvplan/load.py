"""From what a user calls a model to its spec: a name, a file, a folder, or standard input.

    llama3-8b, meta-llama/Meta-Llama-3-8B    the catalogue and the user's own spec folders
    path/to/spec.yaml                        a spec
    -                                        a spec on standard input

A bare word is a name first; anything with a path separator or a known ending is a path when such a
file exists.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvplan.errors import UnknownModelError

if TYPE_CHECKING:
    from kvplan.spec.model import ModelSpec

_FILE_ENDINGS = (".yaml", ".yml", ".json", ".gguf")


class Warning_(NamedTuple):
    """Something the user should know: a stable id and one sentence."""

    id: str
    message: str


class LoadedModel(NamedTuple):
    """A model and where it was found.

    Attributes:
        spec: the model.
        origin: the file it was read from.
        warnings: what had to be assumed to read it.
    """

    spec: ModelSpec
    origin: str
    warnings: tuple[Warning_, ...] = ()


def load_model(model: str, *, specs: Sequence[str] | None = None) -> LoadedModel:
    """Find and read a model.

    Args:
        model: a name, a Hugging Face id, a path, or `-`.
        specs: folders of the user's own specs; None reads KVPLAN_SPECS.

    Raises:
        UnknownModelError: nothing answers to the name.
        InputError: the file found cannot be read as a model.
    """
    if model == "-":
        return _from_text(sys.stdin.buffer.read(), "<stdin>")
    if _looks_like_path(model):
        return _from_path(model)
    from kvplan.spec.catalogue import Catalogue

    try:
        entry = Catalogue(specs).find(model)
    except UnknownModelError:
        if os.path.exists(model):
            return _from_path(model)
        raise
    return LoadedModel(entry.spec(), entry.document.name)


def _looks_like_path(model: str) -> bool:
    if model.lower().endswith(_FILE_ENDINGS) or model.startswith((".", "~", os.sep)):
        return True
    return os.sep in model and os.path.exists(model)


def _from_path(path: str) -> LoadedModel:
    from kvplan.spec.source import read_bytes

    return _from_text(read_bytes(os.path.expanduser(path)), path)


def _from_text(data: bytes, name: str) -> LoadedModel:
    from kvplan.spec.reader import read_spec
    from kvplan.spec.source import decode, parse_yaml

    return LoadedModel(read_spec(parse_yaml(decode(data, name), name)), name)
