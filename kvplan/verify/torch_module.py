"""torch, imported when a command needs it, or one clear sentence."""

from __future__ import annotations

import warnings
from typing import Any

from kvplan.errors import MissingDependencyError


def need_torch() -> Any:
    """The torch module.

    Raises:
        MissingDependencyError: it is not installed, or it does not load.
    """
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


def _broken(error: Exception) -> MissingDependencyError:
    return MissingDependencyError(
        f"torch is installed but does not load: {error}",
        hint="python -c 'import torch' shows the whole error",
    )
