"""Small models for the tests of single steps, and what the `plan` fixture answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GIB = 2**30

Plan = Callable[..., dict[str, Any]]


def spec_of(*, name: str = "small", **fields: Any) -> dict[str, Any]:
    """A spec document: bfloat16, 32,768 tokens at most."""
    return {"name": name, "dtype": "bfloat16", "max_context": 32768, **fields}
