"""Models by Hugging Face id: the local cache, and the Hub itself only when it is asked for.

The cache is read as its library lays it out, `models--ORG--NAME/{refs/main, snapshots/REVISION/}`,
without that library and without network. The Hub needs `kvplan[hub]`; only small files are fetched:
configs, the index of the weights, and headers of safetensors files. No code of a model is ever
fetched or run. Tokens, proxies and offline switches are the library's own business.
Source: huggingface_hub 0.23 to 2.4, environment variables, cache layout and errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from kvplan.errors import InputError, KvplanError, MissingDependencyError, UnknownModelError
from kvplan.importers.folder import CONFIG_NAMES, gguf_models, has_config

# What a plan may need beside the config: formats of a quantised checkpoint, index of its weights.
_SMALL_FILES = ("hf_quant_config.json", "model.safetensors.index.json")
_REPO_ID = re.compile(r"[A-Za-z0-9_][\w.-]*/[\w.-]*[A-Za-z0-9_]", re.ASCII)
_LONGEST_ID = 96
_REVISION = re.compile(r"\w[\w.-]*", re.ASCII)


def is_repo_id(text: str) -> bool:
    """Whether a text has the form `ORG/NAME`, as the Hub's library accepts it."""
    if not _REPO_ID.fullmatch(text) or len(text) > _LONGEST_ID:
        return False
    return ".." not in text and "--" not in text and not text.partition("/")[2].startswith(".")


def cache_folder() -> str:
    """The cache's folder, as HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME move it."""
    environment = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return _expanded(environment[variable])
    cache = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = environment.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(_expanded(home), "hub")


def find_snapshot(repo_id: str) -> str | None:
    """The snapshot folder of a cached model: that of `refs/main`, else the newest.

    One with a config goes before one that holds GGUF files only. None when the cache has neither.
    """
    root = os.path.join(cache_folder(), f"models--{repo_id.replace('/', '--')}")
    found = list(_snapshots(root))
    with_config = next((folder for folder in found if has_config(folder)), None)
    return with_config or next((folder for folder in found if gguf_models(folder)), None)


def near_cached(name: str) -> list[str]:
    """Ids of cached models that a name misses by its case, or by lack of an organisation."""
    wanted = name.strip().lower()
    try:
        folders = os.listdir(cache_folder())
    except OSError:
        return []
    ids = (
        f.removeprefix("models--").replace("--", "/") for f in folders if f.startswith("models--")
    )
    return sorted(
        repo_id
        for repo_id in ids
        if wanted in (repo_id.lower(), repo_id.lower().rpartition("/")[2])
        and find_snapshot(repo_id)
    )


def fetch_snapshot(repo_id: str) -> str:
    """Fetch a model's small files from the Hub into the cache and return their folder.

    Raises:
        MissingDependencyError: huggingface_hub is not installed.
        UnknownModelError: the Hub knows no such model, or hides it.
        InputError: the Hub cannot be reached, or the model has no config.
    """
    download = _library().hf_hub_download

    def fetch(name: str) -> str | None:
        try:
            return str(download(repo_id, name))
        except Exception as error:  # whatever the library or the network comes up with
            if _says(error, "EntryNotFoundError"):
                return None
            raise _refusal(repo_id, error) from None

    config = next((path for name in CONFIG_NAMES if (path := fetch(name))), None)
    if config is None:
        raise InputError(
            f"{repo_id} has neither of {', '.join(CONFIG_NAMES)} on the Hub",
            hint="download its .gguf file, if it has one, and name its path",
        )
    for name in _SMALL_FILES:
        fetch(name)
    return os.path.dirname(config)


def remote_weight_headers(repo_id: str) -> list[dict[str, Any]]:
    """Tensors of each safetensors file of a model on the Hub, from their headers alone.

    Returns:
        Per file: tensor name -> {"dtype", "shape", "data_offsets"}, as the file's own header has
        it; empty when the model has no safetensors files.

    Raises:
        MissingDependencyError, UnknownModelError, InputError: as for `fetch_snapshot`.
    """
    library = _library()
    try:
        found = library.get_safetensors_metadata(repo_id)
    except Exception as error:
        if _says(error, "NotASafetensorsRepoError"):
            return []
        raise _refusal(repo_id, error) from None
    return [
        {
            name: {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": list(t.data_offsets)}
            for name, t in file.tensors.items()
        }
        for file in found.files_metadata.values()
    ]


def _library() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise MissingDependencyError(
            "--allow-network needs huggingface_hub", hint='pip install "kvplan[hub]"'
        ) from None


def _says(error: Exception, name: str) -> bool:
    """Whether an error is of a class of that name: the library has moved them between modules.

    Being offline is a missing entry to the library; here it is not.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    return name in names and "LocalEntryNotFoundError" not in names


def _refusal(repo_id: str, error: Exception) -> KvplanError:
    if _says(error, "GatedRepoError"):
        return InputError(
            f"{repo_id} is gated on the Hub",
            hint="accept its terms there, and log in with `hf auth login` or HF_TOKEN",
        )
    if _says(error, "RepositoryNotFoundError"):
        return UnknownModelError(
            f"the Hub knows no public model {repo_id!r}", hint="a private one needs HF_TOKEN"
        )
    reason = (str(error).strip().splitlines() or [""])[0] or type(error).__name__
    return InputError(f"the Hub cannot be asked for {repo_id}: {reason}")


def _snapshots(root: str) -> Iterator[str]:
    """The snapshot folders of a cached model: that of `refs/main` first, then by age."""
    snapshots = os.path.join(root, "snapshots")
    main = _main_revision(root)
    if main is not None:
        yield os.path.join(snapshots, main)
    try:
        with os.scandir(snapshots) as entries:
            folders = [entry for entry in entries if entry.is_dir()]
            ages = {entry.path: entry.stat().st_mtime for entry in folders}
    except OSError:
        return
    yield from sorted(ages, key=lambda path: (-ages[path], path))


def _main_revision(root: str) -> str | None:
    path = os.path.join(root, "refs", "main")
    if not os.path.isfile(path):  # a pipe would never end
        return None
    try:
        with open(path, encoding="ascii") as file:
            revision = file.read(100).strip()
    except (OSError, ValueError):
        return None
    return revision if _REVISION.fullmatch(revision) else None


def _expanded(path: str) -> str:
    return os.path.expandvars(os.path.expanduser(path))
