"""How an engine stores what a model keeps: one room per engine, one protocol.

`find_engine("vllm")` takes the newest rules kvplan knows, `find_engine("vllm@0.32.0")` those of a
version; a version that kvplan does not know gets the rules of the nearest known one, and a warning.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from kvplan.errors import UsageError

if TYPE_CHECKING:
    from kvplan.engines.base import Engine, LoadModel

# name -> module and class; loaded when asked for.
_ENGINES: dict[str, tuple[str, str]] = {
    "logical": ("kvplan.engines.logical_engine", "LogicalEngine"),
    "llamacpp": ("kvplan.engines.llamacpp.engine", "LlamacppEngine"),
    "lmstudio": ("kvplan.engines.llamacpp.engine", "LmstudioEngine"),
    "ollama": ("kvplan.engines.llamacpp.ollama", "OllamaEngine"),
    "transformers": ("kvplan.engines.transformers.engine", "TransformersEngine"),
    "vllm": ("kvplan.engines.vllm.engine", "VllmEngine"),
}

ENGINE_NAMES = tuple(_ENGINES)
ALIASES = {
    "llama.cpp": "llamacpp",
    "llama-cpp": "llamacpp",
    "llama-server": "llamacpp",
    "lm-studio": "lmstudio",
}
LOGICAL = "logical"


def find_engine(text: str, load_model: LoadModel | None = None) -> tuple[Engine, str]:
    """The engine that `NAME` or `NAME@VERSION` asks for, and the version as it was asked for.

    Args:
        text: as `--engine` takes it, in any case.
        load_model: finds the spec of another model that the engine's options name.

    Raises:
        UsageError: no such engine, or nothing behind the `@`.
    """
    name, at, version = text.strip().lower().partition("@")
    if at and not version:
        raise UsageError(
            f"--engine {text!r} names no version", hint=f"write {name}, or {name}@VERSION"
        )
    name = ALIASES.get(name, name)
    if name not in _ENGINES:
        hint = f"one of {', '.join(ENGINE_NAMES)}"
        raise UsageError(f"--engine {text!r} is not an engine kvplan knows", hint=hint)
    from importlib import import_module

    module, class_name = _ENGINES[name]
    kind: type[Engine] = getattr(import_module(module), class_name)
    engine = kind() if load_model is None else kind(load_model)
    return engine, version or engine.versions[0]


class _Room(ModuleType):
    """This room, called: `kvplan.engines()`. A function of that name would hide the package."""

    def __call__(self) -> dict[str, tuple[str, ...]]:
        """The engines kvplan knows, and the versions whose rules it has, newest first."""
        return {name: find_engine(name)[0].versions for name in ENGINE_NAMES}


sys.modules[__name__].__class__ = _Room
