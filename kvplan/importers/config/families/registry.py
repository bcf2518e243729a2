"""Where the families sign in."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.layout import Layout

Reader = Callable[[Facts], Layout]

FAMILIES: dict[str, Reader] = {}


def family(*model_types: str) -> Callable[[Reader], Reader]:
    """Register a function for these model types."""

    def register(function: Reader) -> Reader:
        for model_type in model_types:
            if model_type in FAMILIES:
                raise ValueError(f"two functions read model type {model_type!r}")
            FAMILIES[model_type] = function
        return function

    return register
