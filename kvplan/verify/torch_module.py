"""torch, imported when a command needs it, or one clear sentence."""

from __future__ import annotations

import warnings
from typing import Any

from kvplan.errors import MissingDependencyError, UsageError
from kvplan.units import GIB, format_bytes

_ADDRESSES = 2 * GIB  # the libraries of a CPU build take half of it, and each thread some more


def need_torch() -> Any:
    """The torch module.

    Raises:
        MissingDependencyError: it is not installed, or it does not load.
        UsageError: this process may not take the addresses that torch needs to load.
    """
    _require_addresses()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that numpy is not there, and more of that kind
            import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise _broken(error) from None
        raise MissingDependencyError(
            "allocating real tensors needs torch, which is not installed",
            hint="pip install torch (2.6 or later; `kvplan[verify]` brings it along)",
        ) from None
    except (ImportError, OSError) as error:
        raise _broken(error) from None
    return torch


def _require_addresses() -> None:
    """Refuse a limit (`ulimit -v`) under which torch's libraries would end the process."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESSES:
        raise UsageError(
            f"this process is limited to {format_bytes(limit)} of addresses; torch needs"
            f" {format_bytes(_ADDRESSES)} to load",
            hint="ulimit -v unlimited",
        )


def _broken(error: Exception) -> MissingDependencyError:
    return MissingDependencyError(
        f"torch is installed but does not load: {error}",
        hint="python -c 'import torch' shows the whole error",
    )
