"""Model types that keep no cache of past tokens, so that there is nothing to plan.

A table of names: of the classes of transformers 5.24.0 those whose modelling code takes no
past_key_values. Text encoders that people serve stand with the families instead, and keep nothing.
"""

from __future__ import annotations

from functools import cache
from os.path import dirname, join

TABLE = join(dirname(__file__), "cacheless.txt")


def keeps_no_cache(model_type: str | None) -> bool:
    """Whether a model type is known to keep no cache of past tokens."""
    return model_type is not None and model_type in _table()


@cache
def _table() -> frozenset[str]:
    with open(TABLE, encoding="utf-8") as file:
        return frozenset(name for line in file if not line.startswith("#") for name in line.split())
