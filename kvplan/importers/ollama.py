"""A model that Ollama has pulled: its GGUF file, by the name and tag that Ollama knows it by.

Ollama keeps a manifest per tag under `models/manifests/HOST/OWNER/NAME/TAG`, JSON with a list of
layers, and each layer as a file `models/blobs/sha256-DIGEST`. The layer of the media type
`application/vnd.ollama.image.model` is the GGUF file. Nothing is fetched.
Source: ollama 0.13, server/modelpath.go and server/manifest.go.
"""

from __future__ import annotations

import json
import os
import re

_HOST = "registry.ollama.ai"
_OWNER = "library"
_MODEL = "application/vnd.ollama.image.model"
_NAME = re.compile(
    r"(?:(?P<host>[\w.-]+)/)?(?:(?P<owner>[\w.-]+)/)?(?P<name>[\w.-]+)(?::(?P<tag>[\w.-]+))?"
)
_DIGEST = re.compile(r"sha256[:-][0-9a-f]{64}")
_MOST = 2**20  # of a manifest


def models_folder() -> str:
    """Where Ollama keeps its models: OLLAMA_MODELS, else its folder in the user's home."""
    return os.path.expanduser(
        os.environ.get("OLLAMA_MODELS") or os.path.join("~", ".ollama", "models")
    )


def find_pulled(name: str) -> str | None:
    """The GGUF file of a tag that is on this machine, None if there is none."""
    found = _NAME.fullmatch(name.strip())
    if found is None or ".." in name:
        return None
    folder = models_folder()
    manifest = os.path.join(
        folder,
        "manifests",
        found["host"] or _HOST,
        found["owner"] or _OWNER,
        found["name"],
        found["tag"] or "latest",
    )
    try:
        with open(manifest, "rb") as file:
            layers = json.loads(file.read(_MOST))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _MODEL]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for digest in digests:
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            path = os.path.join(folder, "blobs", digest.replace(":", "-"))
            if os.path.isfile(path):
                return path
    return None
