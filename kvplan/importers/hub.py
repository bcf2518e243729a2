"""Models by Hugging Face id: the local cache, and the Hub itself only when it is asked for.

The cache is read as its library lays it out, `models--ORG--NAME/{refs/main, snapshots/REVISION/}`,
without that library and without network. The Hub needs `kvplan[hub]`; only small files are fetched:
configs and the index of the weights. No code of a model is ever fetched or run.
Source: huggingface_hub 1.x, environment variables and cache layout.
"""

from __future__ import annotations

import os
import re

from kvplan.errors import InputError, MissingDependencyError, UnknownModelError

CONFIG_NAMES = ("config.json", "params.json")
# What a plan may need beside the config: formats of a quantised checkpoint, the index of its weights.
_SMALL_FILES = ("hf_quant_config.json", "model.safetensors.index.json")
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_REVISION = re.compile(r"[\w.-]+")


def is_repo_id(text: str) -> bool:
    """Whether a text has the form `ORG/NAME`."""
    return bool(_REPO_ID.fullmatch(text)) and ".." not in text and "--" not in text


def cache_folder() -> str:
    """The cache's folder, as HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME move it."""
    environment = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return os.path.expanduser(environment[variable])
    cache = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = environment.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def find_snapshot(repo_id: str) -> str | None:
    """The snapshot folder of a cached model that holds a config: `refs/main`, else the newest.

    None when the cache does not hold one.
    """
    root = os.path.join(cache_folder(), f"models--{repo_id.replace('/', '--')}")
    snapshots = os.path.join(root, "snapshots")
    try:
        found = [os.path.join(snapshots, name) for name in os.listdir(snapshots)]
    except OSError:
        return None
    found.sort(key=os.path.getmtime, reverse=True)
    main = _main_revision(root)
    if main is not None:
        found.insert(0, os.path.join(snapshots, main))
    return next((folder for folder in found if _has_config(folder)), None)


def fetch_snapshot(repo_id: str) -> str:
    """Fetch a model's small files from the Hub into the cache and return their folder.

    Raises:
        MissingDependencyError: huggingface_hub is not installed.
        UnknownModelError: the Hub knows no such model, or hides it.
        InputError: the Hub cannot be reached, or the model has no config.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            HfHubHTTPError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
        )
    except ImportError:
        raise MissingDependencyError(
            "--allow-network needs huggingface_hub", hint='pip install "kvplan[hub]"'
        ) from None

    def fetch(name: str) -> str | None:
        try:
            return str(hf_hub_download(repo_id, name))
        except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
            raise InputError(
                f"the Hub cannot be asked for {repo_id}: {_first_line(error)}"
            ) from None
        except EntryNotFoundError:
            return None
        except GatedRepoError:
            raise InputError(
                f"{repo_id} is gated on the Hub",
                hint="accept its terms there, and log in with `hf auth login` or HF_TOKEN",
            ) from None
        except RepositoryNotFoundError:
            raise UnknownModelError(
                f"the Hub knows no public model {repo_id!r}", hint="a private one needs HF_TOKEN"
            ) from None
        except (HfHubHTTPError, OSError) as error:
            raise InputError(
                f"the Hub cannot be asked for {repo_id}: {_first_line(error)}"
            ) from None

    config = next((path for name in CONFIG_NAMES if (path := fetch(name))), None)
    if config is None:
        raise InputError(f"{repo_id} has neither of " + ", ".join(CONFIG_NAMES))
    for name in _SMALL_FILES:
        fetch(name)
    return os.path.dirname(config)


def _main_revision(root: str) -> str | None:
    try:
        with open(os.path.join(root, "refs", "main"), encoding="ascii") as file:
            revision = file.read(100).strip()
    except (OSError, ValueError):
        return None
    return revision if _REVISION.fullmatch(revision) else None


def _has_config(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in CONFIG_NAMES)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
