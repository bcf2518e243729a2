"""What an importer hands over: the model, where each fact of it came from, and what to mind.

Every foreign format (config.json, GGUF) answers with the same three things, so that `kvplan size`
can show warnings and `kvplan import` can write each line of a spec with its origin behind it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.spec.model import ModelSpec


class Origin:
    """Words that are put together when they are printed: finding a place reads the file again."""

    __slots__ = ("_say",)

    def __init__(self, say: Callable[[], str]) -> None:
        self._say = say

    def __str__(self) -> str:
        return self._say()


def _without(origin: str, place: str) -> str:
    """`line 12 key` for `config.json:12:3 key`, of the file at `place`."""
    name = re.escape(os.path.basename(place))
    return re.sub(rf"(?<![\w./-]){name}:(\d+):\d+", r"line \1", origin) if name else origin


class Fact(NamedTuple):
    """One fact of the model.

    Attributes:
        field: where it stands in a spec, as the writer's comments name it (`max_context`, `layers`,
            `kinds.sliding`), or the foreign format's own name of it (`num_kv_heads`).
        value: what it is, None where the spec's line says it all.
        said: its origin, or what puts it into words.
    """

    field: str
    value: Any
    said: Origin | str

    @property
    def origin(self) -> str:
        """The key it was read from, a class default, or a rule of an engine's code."""
        return str(self.said)


class Imported(NamedTuple):
    """A model read from a foreign file.

    Attributes:
        spec: the model.
        facts: the facts and their origins, in the order they were found.
        warnings: what to mind.
    """

    spec: ModelSpec
    facts: tuple[Fact, ...] = ()
    warnings: tuple[Notice, ...] = ()

    def comments(self, place: str = "") -> dict[str, str]:
        """Origins by field, as the comments that `write_spec` puts behind its lines.

        Args:
            place: the file that the reader knows about; of its origins only the line is named.
        """
        found: dict[str, list[str]] = {}
        for fact in self.facts:
            origins = found.setdefault(fact.field, [])
            origin = _without(fact.origin, place)
            if origin not in origins:
                origins.append(origin)
        return {field: "; ".join(origins) for field, origins in found.items()}

    def named(self, hf_id: str) -> Imported:
        """The same model under the Hugging Face id that it was asked for by."""
        fact = Fact("hf_ids", (hf_id,), "the id it was asked for by")
        spec = self.spec.replaced(hf_ids=(hf_id,))
        return self._replace(spec=spec, facts=(*self.facts, fact))
