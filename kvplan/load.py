"""Resolve a model name, id or path to its spec.

    llama3-8b, meta-llama/Meta-Llama-3-8B    the catalogue and the user's own spec folders, else the
                                             local Hugging Face cache, else, when allowed, the Hub
    path/to/spec.yaml                        a spec, in braces or JSON too
    path/to/config.json, path/to/folder      a model's config (or Mistral's params.json); a folder
                                             without one may hold a GGUF model
    path/to/model.gguf                       a GGUF file, whatever its name ends in
    -                                        a spec or a config on standard input

A bare word is a name first; what ends like a file or begins like a path is a path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.errors import InputError, UnknownModelError
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice

if TYPE_CHECKING:
    from kvplan.importers.imported import Imported
    from kvplan.spec.catalogue import Catalogue
    from kvplan.spec.model import ModelSpec

_YAML_ENDINGS = (".yaml", ".yml")
_FILE_ENDINGS = (*_YAML_ENDINGS, ".json", ".gguf")
STDIN = "<stdin>"
NETWORK_HINT = "--allow-network asks the Hugging Face Hub"
_MOST_OF_STDIN = 16 * 2**20  # the largest config that can be right


class LoadedModel(NamedTuple):
    """A model and where it was found.

    Attributes:
        spec: the model.
        origin: the file or folder it was read from.
        warnings: what had to be assumed to read it.
        hf_id: the Hugging Face id it was asked for by: copies of one model, quantised otherwise,
            share a spec and differ in their weights. None for any other way to name it.
        asked: the name it was asked for by, where that is another than the spec's own: an alias, or
            an id of a model that shares its cache.
        upload: the id of the checkpoint whose weights are meant, where that is a copy of `hf_id`.
    """

    spec: ModelSpec
    origin: str
    warnings: tuple[Notice, ...] = ()
    hf_id: str | None = None
    asked: str | None = None
    upload: str | None = None

    def __repr__(self) -> str:
        return f"LoadedModel({self.asked or self.spec.name!r})"

    def to_dict(self) -> dict[str, Any]:
        """What `kvplan models NAME --json` prints of it: plain data, ready for JSON."""
        from kvplan import to_dict

        return to_dict(self)

    @property
    def title(self) -> str:
        """What a page calls it: `deepseek-r1 (the cache of deepseek-v3)`."""
        return f"{self.asked} (the cache of {self.spec.name})" if self.asked else self.spec.name


def load_model(
    model: str | os.PathLike[str],
    *,
    specs: Sequence[str] | None = None,
    allow_network: bool = False,
) -> LoadedModel:
    """Find and read a model.

    Args:
        model: a name, a Hugging Face id, a path, or `-`.
        specs: folders of the user's own specs; None reads KVPLAN_SPECS.
        allow_network: ask the Hugging Face Hub for a model that nothing here answers to.

    Raises:
        UnknownModelError: nothing answers to the name.
        InputError: the file found cannot be read as a model.
        MissingDependencyError: the Hub is to be asked without huggingface_hub.
    """
    if isinstance(model, os.PathLike):
        return _from_path(os.path.expanduser(os.fspath(model)))
    if not isinstance(model, str):
        raise InputError(f"{type(model).__name__} is no name or path of a model")
    if model == "-":
        return _from_text(_read_stdin(), STDIN)
    if _looks_like_path(model):
        return _from_path(os.path.expanduser(model))
    from kvplan.spec.catalogue import Catalogue

    catalogue = Catalogue(specs)
    entry = catalogue.look_up(model)
    if entry is None:
        found = _elsewhere(model, allow_network=allow_network) or _taken_for(catalogue, model)
        if found is not None:
            return found
        entry = catalogue.find_loosely(model)
    if entry is None:
        raise _with_more_hints(catalogue.unknown(model), model)
    spec = entry.spec().called(model)
    return LoadedModel(
        spec,
        entry.file,
        catalogue.notices(),
        hf_id=_asked_id(spec, model),
        asked=_asked(spec, model),
    )


def loader(specs: Sequence[str] | None, *, allow_network: bool) -> Callable[[str], ModelSpec]:
    """How an engine finds another model that its options name: as the user finds models."""

    def load(name: str) -> ModelSpec:
        return load_model(name, specs=specs, allow_network=allow_network).spec

    return load


def import_model(
    path: str, *, allow_network: bool = False, ignored: Sequence[str] = ()
) -> tuple[Imported, str]:
    """Import a foreign file (config.json, params.json, GGUF, a folder, a Hugging Face id).

    Args:
        path: where it is, `-` for standard input.
        allow_network: ask the Hugging Face Hub for a model that is not here.
        ignored: keys of a config that the user declares to have no say in the cache.

    Returns:
        The import with the origin of each fact, and the place it was read from.

    Raises:
        InputError: the file lacks or contradicts a fact, or is a spec already.
    """
    if path == "-":
        return _imported_text(_read_stdin(), STDIN, ignored), STDIN
    place = os.path.expanduser(path)
    if place.lower().endswith(_YAML_ENDINGS) and os.path.isfile(place):
        raise InputError(
            "is YAML, a spec already", where=path, hint="`kvplan size` takes it as it is"
        )
    if not os.path.exists(place) and not _looks_like_path(path):
        found = _from_cache(path, allow_network=allow_network, ignored=ignored)
        if found is not None:
            return found
        from kvplan.importers.hub import near_cached

        near = [f"it holds {', '.join(near_cached(path))}"] if near_cached(path) else []
        raise InputError(
            "no such file, and the local Hugging Face cache holds no such model",
            where=path,
            hint="; ".join(
                (*near, NETWORK_HINT, "`kvplan models NAME` prints a spec of the catalogue")
            ),
        )
    return _import_path(place, ignored=ignored)


def _read_stdin() -> bytes:
    """All of standard input, which may not go on for ever."""
    if sys.stdin is None:
        raise InputError("is closed", where=STDIN)
    data = sys.stdin.buffer.read(_MOST_OF_STDIN + 1)
    if len(data) > _MOST_OF_STDIN:
        raise InputError(f"is more than {_MOST_OF_STDIN:,} bytes", where=STDIN)
    return data


def _looks_like_path(model: str) -> bool:
    if model.lower().endswith(_FILE_ENDINGS) or model.startswith((".", "~", os.sep)):
        return True
    return os.sep in model and os.path.exists(model)


def _elsewhere(model: str, *, allow_network: bool) -> LoadedModel | None:
    if os.path.exists(model):
        return _from_path(model)
    pulled = _pulled(model)
    if pulled is not None:
        return pulled
    found = _from_cache(model, allow_network=allow_network)
    return None if found is None else _loaded(*found)._replace(hf_id=model)


def _pulled(model: str) -> LoadedModel | None:
    """A tag that Ollama has pulled: its file says more than any table of tags."""
    from kvplan.importers.ollama import find_pulled

    path = find_pulled(model)
    if path is None:
        return None
    found, _ = _import_path(path, name=model.strip().lower())
    text = f"{model} is the file that Ollama has pulled"
    return LoadedModel(found.spec, path, (*found.warnings, Notice("ollama-store", text)))


def _taken_for(catalogue: Catalogue, model: str) -> LoadedModel | None:
    """The model that a copy's id, a server's tag or a cloud's id stands for."""
    from kvplan.spec.resolve import resolve

    found = resolve(catalogue, model)
    if found is None:
        return None
    upload = model.strip() if found.is_copy and model.count("/") == 1 else None
    return LoadedModel(
        found.spec(),
        found.entry.file,
        (*catalogue.notices(), found.notice),
        hf_id=found.id if "/" in found.id else None,
        asked=model.strip(),
        upload=upload,
    )


def _asked_id(spec: ModelSpec, model: str) -> str | None:
    """The id of a spec that a name is, with or without its organisation; not its own short name."""
    wanted = model.strip().lower()
    if wanted in (spec.name.lower(), *(alias.lower() for alias in spec.aliases)):
        return None
    ids = {hf_id.lower(): hf_id for hf_id in reversed(spec.hf_ids)}
    tails = {hf_id.rpartition("/")[2]: ids[hf_id] for hf_id in ids}
    return ids.get(wanted) or tails.get(wanted)


def _asked(spec: ModelSpec, model: str) -> str | None:
    """The name that a spec was asked for by, when it is another than its own."""
    model = model.strip()
    if model.lower() == spec.name.lower():
        return None
    from kvplan.spec.names import loosened

    same = loosened(model).rpartition("/")[2] == loosened(spec.name)
    return None if same else model


def _from_cache(
    model: str, *, allow_network: bool, ignored: Sequence[str] = ()
) -> tuple[Imported, str] | None:
    """Import a model by its Hugging Face id, which its spec then answers to."""
    from kvplan.importers.hub import fetch_snapshot, find_snapshot, is_repo_id

    if not is_repo_id(model):
        return None
    snapshot = find_snapshot(model) or (fetch_snapshot(model) if allow_network else None)
    if snapshot is None:
        return None
    found, place = _import_path(snapshot, model.rpartition("/")[2].lower(), ignored)
    return found.named(model), place


def _with_more_hints(error: UnknownModelError, model: str) -> UnknownModelError:
    """The same error; it also tells of a cached id spelt otherwise, and how to ask the Hub."""
    from kvplan.importers.hub import is_repo_id, near_cached
    from kvplan.spec.copies import bare_base

    near = near_cached(model)
    base = bare_base(model)
    hints = [f"by its name a copy of {base}, whose facts are not known here"] if base else []
    hints += [f"the local Hugging Face cache holds {', '.join(near)}"] if near else []
    hints += [error.hint] if error.hint else []
    hints += [NETWORK_HINT] if is_repo_id(model) else []
    return UnknownModelError(
        error.message,
        candidates=(*near, *error.candidates),
        hint="; ".join(hints).replace("?;", "?"),
    )


def _from_path(path: str) -> LoadedModel:
    from kvplan.importers.folder import is_gguf

    if os.path.isdir(path) or path.lower().endswith((".json", ".gguf")) or is_gguf(path):
        return _loaded(*_import_path(path))
    from kvplan.documents.files import read_bytes
    from kvplan.documents.policy import SPEC

    return _from_text(read_bytes(path, SPEC), path)


def _import_path(
    path: str, name: str | None = None, ignored: Sequence[str] = ()
) -> tuple[Imported, str]:
    """Import a file or folder; the import and the file or folder that it was read from."""
    from kvplan.importers.folder import is_gguf, model_in

    if os.path.isdir(path):
        path = model_in(path)
    if path.lower().endswith(".gguf") or is_gguf(path):
        from kvplan.importers.gguf import import_gguf

        return import_gguf(path, name=name), path
    from kvplan.importers.config import import_config

    return import_config(path, name=name, ignored=ignored), path


def _from_text(data: bytes, name: str) -> LoadedModel:
    import re

    from kvplan.documents.files import decode
    from kvplan.documents.from_yaml import read_yaml
    from kvplan.documents.policy import SPEC
    from kvplan.spec.braces import is_spec
    from kvplan.spec.reader import read_spec

    if not data.strip():
        raise InputError("is empty", where=name)
    text = decode(data, name, SPEC)
    if re.search(r"^(?:apiVersion|services):", text, re.MULTILINE):
        raise InputError(
            "is a deployment file, not a model",
            where=name,
            hint="name the model that its server loads, and what its flags say with --engine-args",
        )
    if name.lower().endswith(_YAML_ENDINGS) or is_spec(text):
        return LoadedModel(read_spec(read_yaml(text, name)), name)
    return _loaded(_imported_text(data, name), name)


def _imported_text(data: bytes, name: str, ignored: Sequence[str] = ()) -> Imported:
    from kvplan.documents.files import decode
    from kvplan.documents.policy import CONFIG
    from kvplan.importers.config import import_config_text

    return import_config_text(decode(data, name, CONFIG), name, ignored=ignored)


def _loaded(found: Imported, origin: str) -> LoadedModel:
    return LoadedModel(found.spec, origin, found.warnings)
