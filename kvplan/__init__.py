"""kvplan: how much memory the KV cache of a language model takes, to the byte, without a GPU.

    >>> from kvplan import load_model, size
    >>> size("llama3-8b", ctx=131072, batch=32).logical.bytes
    549755813888

    >>> from kvplan import Request, fit
    >>> fit(load_model("llama3-8b"), Request(batch=32), 40 * 2**30).max_batch_at_ctx
    40

Public names are loaded when first used, so that `import kvplan` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.engines.request import Request
    from kvplan.errors import KvplanError
    from kvplan.load import LoadedModel, load_model
    from kvplan.plan.fit import Fit, fit
    from kvplan.plan.size import SizeResult, size
    from kvplan.spec.model import ModelSpec

__version__ = "0.1.0"

_HOMES = {
    "Fit": "kvplan.plan.fit",
    "KvplanError": "kvplan.errors",
    "LoadedModel": "kvplan.load",
    "ModelSpec": "kvplan.spec.model",
    "Request": "kvplan.engines.request",
    "SizeResult": "kvplan.plan.size",
    "fit": "kvplan.plan.fit",
    "load_model": "kvplan.load",
    "size": "kvplan.plan.size",
}

__all__ = [
    "Fit",
    "KvplanError",
    "LoadedModel",
    "ModelSpec",
    "Request",
    "SizeResult",
    "fit",
    "load_model",
    "size",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))
