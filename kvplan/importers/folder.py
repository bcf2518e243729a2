"""Which file of a folder is the model: its config, else the one GGUF model that lies there.

A folder of GGUF files mostly holds several quantisations of one model, and beside them what is no
model of its own: later parts of a split one, and projectors of vision towers (`mmproj`).
Source: names of llama.cpp's gguf-split and convert_hf_to_gguf.py (b11434).
"""

from __future__ import annotations

import os
import re

from kvplan.errors import InputError

CONFIG_NAMES = ("config.json", "params.json")
ADAPTER_NAME = "adapter_config.json"  # a LoRA adapter's; it names its base model
_LATER_PART = re.compile(r".*-(?!00001)\d{5}-of-\d{5}\.gguf", re.IGNORECASE | re.DOTALL)


def has_config(folder: str) -> bool:
    """Whether a folder holds a config."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in CONFIG_NAMES)


def config_of(place: str) -> str:
    """The config file of a folder, the file itself for a file."""
    paths = (os.path.join(place, name) for name in CONFIG_NAMES)
    return next((path for path in paths if os.path.isfile(path)), place)


def gguf_models(folder: str) -> list[str]:
    """The names of a folder's GGUF models, the first part standing for a split one."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(
        name
        for name in names
        if name.lower().endswith(".gguf")
        and not name.lower().startswith(("mmproj", "."))
        and not _LATER_PART.fullmatch(name)
        and os.path.isfile(os.path.join(folder, name))
    )


def is_gguf(path: str) -> bool:
    """Whether a regular file is called GGUF, or begins as one does."""
    try:
        if not os.path.isfile(path):
            return False
        if path.lower().endswith(".gguf"):
            return True
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


def model_in(folder: str) -> str:
    """The folder itself if it holds a config, else its one GGUF model.

    Raises:
        InputError: it holds neither, or several GGUF models.
    """
    if has_config(folder):
        return folder
    models = gguf_models(folder)
    if len(models) == 1:
        return os.path.join(folder, models[0])
    adapter = os.path.join(folder, ADAPTER_NAME)
    if not models and os.path.isfile(adapter):
        return adapter
    if not models:
        raise InputError("holds no config.json, no params.json and no .gguf file", where=folder)
    raise InputError(
        f"holds {len(models)} GGUF models and no config.json",
        where=folder,
        hint="name one of them: " + ", ".join(models),
    )
