"""`config.json` (Hugging Face) and `params.json` (Mistral) into exact specs, or a precise refusal.

    read      JSON text -> an object with places, within bounds
    wrappers  which part of it is the text model
    families  the layers, one short function per family; plain for the rest
    common    context, rope, formats
    hints     keys that nobody understood and that may shape the cache: refused

All foreign names end here: what leaves is a `ModelSpec`, and for every fact where it came from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.documents.document import Document
from kvplan.errors import ImportRefused
from kvplan.importers.config.build import build
from kvplan.importers.config.mistral import from_params, is_params
from kvplan.importers.config.read import parse, read_file
from kvplan.importers.imported import Fact, Imported

__all__ = ["Fact", "Imported", "import_config", "import_config_text"]

CONFIG_NAMES = ("config.json", "params.json")
QUANT_NAME = "hf_quant_config.json"


def import_config(
    data_or_path: Mapping[str, Any] | str | os.PathLike[str],
    *,
    name: str | None = None,
    ignored: Sequence[str] = (),
) -> Imported:
    """Import a config: its data, its path, or the folder that holds it.

    Args:
        data_or_path: the data of a config.json, or a path.
        name: the model's name in the spec; by default the folder's.
        ignored: keys that the user declares to have no say in the cache.

    Raises:
        ImportRefused: the file cannot be read, or a fact of the model cannot be derived from it.
    """
    if isinstance(data_or_path, Mapping):
        return _import(Document(data=dict(data_or_path)), name or "model", None, ignored)
    path = os.fspath(data_or_path)
    if os.path.isdir(path):
        found = (os.path.join(path, file) for file in CONFIG_NAMES)
        config = next((file for file in found if os.path.isfile(file)), None)
        if config is None:
            raise ImportRefused("holds neither config.json nor params.json", where=path)
        path = config
    return _import(read_file(path), name or _name(path), _beside(path), ignored)


def import_config_text(
    text: str, file_name: str, *, name: str | None = None, ignored: Sequence[str] = ()
) -> Imported:
    """Import the text of a config, such as one given on standard input.

    Raises:
        ImportRefused: as for `import_config`.
    """
    return _import(parse(text, file_name), name or _name(file_name), None, ignored)


def _import(
    source: Document, name: str, quant: Mapping[str, Any] | None, ignored: Sequence[str]
) -> Imported:
    if is_params(source.data):
        source = from_params(source)
    return build(source, name, quant, ignored)


def _beside(path: str) -> Mapping[str, Any] | None:
    """The content of the hf_quant_config.json that lies beside a config."""
    folder, file = os.path.split(path)
    quant = os.path.join(folder, QUANT_NAME)
    # a link that leads nowhere is an error, not an absent file
    return read_file(quant).data if file in CONFIG_NAMES and os.path.lexists(quant) else None


def _name(path: str) -> str:
    """A short lower-case name: the folder's for a file called config.json, else the file's."""
    folder, file = os.path.split(path)
    if file in CONFIG_NAMES and not os.path.basename(folder).strip("."):
        try:
            folder = os.path.abspath(folder)
        except OSError:  # the working directory is gone
            folder = ""
    stem = os.path.basename(folder) if file in CONFIG_NAMES else os.path.splitext(file)[0]
    name = stem.split("__")[-1].lower().strip(" <>")
    return "".join(char if char.isprintable() else "-" for char in name) or "model"
