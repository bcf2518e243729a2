"""The text of a config: JSON that holds one object."""

from __future__ import annotations

from kvplan.documents.document import Document
from kvplan.documents.files import read_text
from kvplan.documents.from_json import read_json
from kvplan.documents.policy import CONFIG
from kvplan.errors import ImportRefused


def read_file(path: str) -> Document:
    """Read a JSON file that holds one object.

    Raises:
        ImportRefused: it cannot be read, or is no such file.
    """
    return parse(read_text(path, CONFIG), path)


def parse(text: str, name: str) -> Document:
    """Parse JSON text that holds one object.

    Raises:
        ImportRefused: no valid JSON, no object, a key twice, or beyond the bounds.
    """
    document = read_json(text, name)
    if not isinstance(document.data, dict):
        raise ImportRefused("is no JSON object", where=f"{name}:1:1")
    return document
