"""The facts of one engine while they are gathered: the last of several statements counts."""

from __future__ import annotations

from typing import Any

from kvplan.deployments.facts import (
    ENV,
    FACTS,
    INTEGERS,
    LITERAL,
    NOTHING,
    UNRESOLVED,
    Deployment,
    Fact,
)
from kvplan.deployments.node import Node
from kvplan.deployments.variables import KUBERNETES, Refs, Scope
from kvplan.documents.document import Place
from kvplan.engines.kit.values import human_int


class Draft:
    """One engine.

    Attributes:
        name, line: as in Deployment.
        scope: what its references may stand for.
    """

    def __init__(self, name: str, line: int, scope: Scope) -> None:
        self.name = name
        self.line = line
        self.scope = scope
        self._facts: dict[str, Fact] = {}

    def has(self, fact: str) -> bool:
        """Whether something was said, even if nobody knows what."""
        return fact in self._facts

    def known(self, fact: str) -> bool:
        """Whether it has a value."""
        return self._facts.get(fact, NOTHING).value is not None

    def value(self, fact: str) -> Any:
        """What is known of a fact, or None."""
        return self._facts.get(fact, NOTHING).value

    def put(self, fact: str, value: Any, place: Place, origin: str, status: str = LITERAL) -> None:
        """State a fact."""
        line, column = place
        self._facts[fact] = Fact(
            value=value, line=line, column=column, status=status, origin=origin
        )

    def say(
        self, fact: str, text: str, place: Place, origin: str, *, through: bool = False
    ) -> None:
        """State a fact by a text whose references are marked.

        Args:
            through: the text itself came out of a variable.
        """
        found = self.scope.resolve(text)
        if found.text is None:
            self.put(fact, None, place, origin, UNRESOLVED)
            return
        value = _value(fact, found.text)
        if value is None:
            return
        status = ENV if through else found.status
        self.put(fact, value, found.place or place, origin, status)

    def read(
        self, fact: str, node: Node, origin: str | None = None, style: str = KUBERNETES
    ) -> bool:
        """State a fact by a scalar of the document; whether there was one."""
        if not node.is_scalar:
            return False
        text = self.scope.refs.encode(node.mapped(), style)
        self.say(fact, text.text, text.place(), origin or node.key)
        return True

    def drop(self, fact: str) -> None:
        """Take a fact back."""
        self._facts.pop(fact, None)

    def fill(self, other: Draft) -> None:
        """Take from another draft what is not said here."""
        for fact, found in other._facts.items():
            self._facts.setdefault(fact, found)

    def done(self) -> Deployment:
        """The engine with all its facts."""
        facts = {name: self._facts.get(name, NOTHING) for name in FACTS}
        return Deployment(name=self.name, line=self.line, facts=facts)


def _value(fact: str, text: str) -> Any:
    """What a text says of a fact; None for one that says nothing."""
    text = text.strip()
    if not text:
        return None
    try:
        if fact in INTEGERS:
            return human_int(text)
        if fact == "gpu_memory_fraction":
            return float(text)
    except (ValueError, OverflowError):
        return text
    return text


def empty(name: str, line: int, refs: Refs) -> Draft:
    """A draft in a scope of its own."""
    return Draft(name, line, Scope(refs))
