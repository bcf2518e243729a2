"""kvplan: how much memory the KV cache of a language model takes, to the byte, without a GPU.

    >>> from kvplan import size
    >>> size("llama3-8b", ctx=131072, batch=32).logical.bytes
    549755813888

    >>> from kvplan import Request, fit
    >>> fit("llama3-8b", Request(batch=32), "40GiB").max_batch_at_ctx
    40

Public names are loaded when first used, so that `import kvplan` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan import engines
    from kvplan.engines.request import Request
    from kvplan.errors import KvplanError
    from kvplan.load import LoadedModel, load_model
    from kvplan.plan.fit import Fit, fit
    from kvplan.plan.models import list_models as models
    from kvplan.plan.size import SizeResult, size
    from kvplan.report.facts import to_dict
    from kvplan.spec.model import ModelSpec

__version__ = "0.1.0"

_HOMES = {
    "Fit": "kvplan.plan.fit",
    "KvplanError": "kvplan.errors",
    "LoadedModel": "kvplan.load",
    "ModelSpec": "kvplan.spec.model",
    "Request": "kvplan.engines.request",
    "SizeResult": "kvplan.plan.size",
    "engines": "kvplan.engines",
    "fit": "kvplan.plan.fit",
    "load_model": "kvplan.load",
    "models": "kvplan.plan.models",
    "size": "kvplan.plan.size",
    "to_dict": "kvplan.report.facts",
}
_NAMES = {"models": "list_models"}  # what its home calls it

__all__ = [
    "Fit",
    "KvplanError",
    "LoadedModel",
    "ModelSpec",
    "Request",
    "SizeResult",
    "engines",
    "fit",
    "load_model",
    "models",
    "size",
    "to_dict",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    if name == "engines":  # the room itself, which answers when it is called
        return import_module(_HOMES[name])
    return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))
