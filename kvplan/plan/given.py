"""What a caller in Python gives, as the command line takes it: names, paths, "128k", "40GiB"."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import index

from kvplan.errors import UsageError
from kvplan.load import LoadedModel, load_model
from kvplan.spec.model import ModelSpec
from kvplan.units import MAX_COUNT, parse_bytes, parse_tokens


def loaded(
    model: str | os.PathLike[str] | LoadedModel | ModelSpec,
    *,
    specs: Sequence[str] | None,
    allow_network: bool,
) -> LoadedModel:
    """The model that a name, a path, a loaded model or a spec is.

    Raises:
        KvplanError: nothing answers to the name, or it is none of these.
    """
    if isinstance(model, LoadedModel):
        return model
    if isinstance(model, ModelSpec):
        return LoadedModel(model, model.source or "")
    return load_model(model, specs=specs, allow_network=allow_network)


def tokens_of(value: int | str | None) -> int | None:
    """A number of tokens, also as "128k"; None stays None."""
    return parse_tokens(value, "ctx") if isinstance(value, str) else value


def bytes_of(value: int | str, what: str) -> int:
    """An amount of memory in bytes, also as "40GiB"; an engine's own may be below nothing.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(value, str):
        return parse_bytes(value, what, least=-MAX_COUNT)
    try:
        return index(value)
    except TypeError:
        raise UsageError(
            f"{what} is {value!r}, it must be whole bytes or a text such as 40GiB"
        ) from None
