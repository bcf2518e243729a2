"""What an importer hands over: the model, where each fact of it came from, and what to mind.

Every foreign format (config.json, GGUF) answers with the same three things, so that `kvplan size`
can show warnings and `kvplan import` can write each line of a spec with its origin behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.spec.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of the spec and its origin.

    Attributes:
        key: where it stands in the spec, as the writer's comments name it: `max_context`,
            `kinds.local`, `layers`.
        origin: the foreign key (or keys), `class default ...`, or the rule of an engine's code.
    """

    key: str
    origin: str


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something a reader should know about the figure, such as an assumption.

    Attributes:
        id: short and stable: `assumed-plain-attention`.
        message: one sentence without a period.
    """

    id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A model read from a foreign file.

    Attributes:
        spec: the model.
        facts: the origin of each fact, in the order of the spec.
        warnings: what to mind, in order of weight.
    """

    spec: ModelSpec
    facts: tuple[Fact, ...] = ()
    warnings: tuple[Warning_, ...] = ()

    def comments(self) -> dict[str, str]:
        """The facts as comments for `write_spec`; several of one key are joined."""
        return join_facts(self.facts)


def join_facts(facts: Iterable[Fact]) -> dict[str, str]:
    """Origins by spec key, in order, each once."""
    found: dict[str, list[str]] = {}
    for fact in facts:
        origins = found.setdefault(fact.key, [])
        if fact.origin not in origins:
            origins.append(fact.origin)
    return {key: "; ".join(origins) for key, origins in found.items()}
