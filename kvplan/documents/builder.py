"""Parser events into plain data, with a stack instead of recursion.

Beside the data grows a tree of the same shape that knows where everything stands. What an alias
repeats is shared in both, so a bomb of aliases takes no room; it is still counted for what it
stands for, because whoever walks the data would walk all of it.
"""

from __future__ import annotations

from typing import Any

import yaml

from kvplan.documents.document import Document, Path, Place, Places, Problem, located
from kvplan.documents.policy import Policy
from kvplan.documents.scalars import OddNumber, Scalars, short
from kvplan.errors import InputError

MERGE = "<<"
# Containers say with these what they are anyway; `!` says that no tag is meant.
_PLAIN = ("!", "!!map", "!!seq", "!!omap", "!!set", "!!pairs")


class Node:
    """Where one value stands, its key, and the values inside."""

    __slots__ = ("inside", "key", "place", "text")

    def __init__(self, place: Place, text: str | None = None) -> None:
        self.place = place
        self.text = text
        self.key: Place | None = None
        self.inside: dict[str | int, Node] = {}

    def at(self, place: Place) -> Node:
        """The same value in another place: what an alias is."""
        copy = Node(place, self.text)
        copy.inside = self.inside
        return copy


class TreePlaces(Places):
    """Places out of a tree of nodes."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def find(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value, of its key, or of the nearest parent."""
        node = self._root
        for part in path:
            if part not in node.inside:
                return node.place
            node = node.inside[part]
        return node.key or node.place if key else node.place

    def written(self, path: Path) -> str | None:
        """The text of a scalar."""
        node: Node | None = self._root
        for part in path:
            node = node.inside.get(part) if node else None
        return node.text if node else None


class _Sized:
    """A value that is complete: what an anchor stands for."""

    __slots__ = ("depth", "node", "value", "values")

    def __init__(self, value: Any, node: Node, values: int, depth: int) -> None:
        self.value = value
        self.node = node
        self.values = values
        self.depth = depth


class _Open:
    """A container that is being filled."""

    __slots__ = ("anchor", "before", "depth", "key", "key_place", "merged", "node", "value")

    def __init__(self, value: Any, node: Node, anchor: str | None, before: int) -> None:
        self.value = value
        self.node = node
        self.anchor = anchor
        self.before = before  # values counted before it
        self.depth = 1  # containers inside each other, itself included
        self.key: str | None = None  # whose value comes next
        self.key_place: Place | None = None
        self.merged: list[_Sized] = []


class Builder:
    """Documents out of parser events.

    Args:
        name: the file's name.
        policy: what is refused.
        first_line: lines of the file before the text.
    """

    def __init__(self, name: str, policy: Policy, first_line: int = 0) -> None:
        self._name = name
        self._policy = policy
        self._first_line = first_line
        self._documents = 0
        self._scalars = Scalars()
        self._take = {
            yaml.DocumentStartEvent: self._begin,
            yaml.DocumentEndEvent: self._finish,
            yaml.AliasEvent: self._alias,
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
        }

    def take(self, event: Any) -> Document | None:
        """Take one parser event; the document that it ends, if it ends one."""
        step = self._take.get(type(event))
        return step(event) if step else None

    def _begin(self, event: Any) -> None:
        self._documents += 1
        most = self._policy.max_documents
        if self._documents > most:
            called = self._policy.called
            raise self._error(
                event,
                f"a second document starts here; {called} is one document"
                if most == 1
                else f"document {self._documents:,} starts here; more than {most:,} are not read",
            )
        self._root: tuple[Any, Node] = (None, Node(self._place(event)))
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Sized] = {}
        self._values = 0
        self._problems: list[Problem] = []

    def _finish(self, event: Any) -> Document:
        data, node = self._root
        problems = tuple(self._problems)
        return Document(data=data, name=self._name, places=TreePlaces(node), problems=problems)

    def _alias(self, event: Any) -> None:
        if not self._policy.anchors:
            raise self._error(event, f"alias *{event.anchor} is not allowed; write the value out")
        target = self._anchors.get(event.anchor)
        if target is None:
            inside = any(open_.anchor == event.anchor for open_ in self._stack)
            why = "stands inside what it names" if inside else "names no anchor before it"
            raise self._error(event, f"alias *{event.anchor} {why}")
        if len(self._stack) + target.depth > self._policy.max_depth:
            raise self._too_deep(event)
        self._count(event, target.values)
        if self._awaits_key():
            self._key(event, target.value)
            return
        if self._stack:
            self._stack[-1].depth = max(self._stack[-1].depth, 1 + target.depth)
        if self._merges():
            self._merge(event, target)
        else:
            self._attach(event, target.value, target.node.at(self._place(event)))

    def _scalar(self, event: Any) -> None:
        self._check(event)
        self._count(event, 1)
        node = Node(self._place(event), event.value if event.implicit[0] else None)
        if self._awaits_key():
            if event.implicit[0] and event.value == MERGE and self._policy.anchors:
                self._stack[-1].key = MERGE  # and no place: no key of its own
                return
            self._key(event, event.value if self._policy.loose else self._value(event))
            return
        value = self._value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Sized(value, node, 1, 0)
        self._attach(event, value, node)

    def _open(self, event: Any) -> None:
        self._check(event)
        self._count(event, 1)
        tagged = event.tag is not None and short(event.tag) not in _PLAIN
        if len(self._stack) + tagged >= self._policy.max_depth:
            raise self._too_deep(event)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        value: Any = {} if is_mapping else []
        node = Node(self._place(event))
        if self._awaits_key():
            self._key(event, value)
        if tagged:
            self._attach(event, *_wrapped(event, value, node))
        elif not self._merges():
            self._attach(event, value, node)
        self._stack.append(_Open(value, node, event.anchor, self._values - 1))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        own = _Sized(done.value, done.node, self._values - done.before, done.depth)
        if done.merged:
            _fill(done)
        if done.anchor is not None:
            self._anchors[done.anchor] = own
        if not self._stack:
            return
        self._stack[-1].depth = max(self._stack[-1].depth, 1 + done.depth)
        if self._merges():
            self._merge(event, own)

    # -- keys and values --------------------------------------------------------------------

    def _awaits_key(self) -> bool:
        return (
            bool(self._stack)
            and self._stack[-1].key is None
            and isinstance(self._stack[-1].value, dict)
        )

    def _merges(self) -> bool:
        """Whether the value that comes next is merged into its mapping."""
        top = self._stack[-1] if self._stack else None
        return top is not None and top.key == MERGE and top.key_place is None

    def _key(self, event: Any, value: Any) -> None:
        if not isinstance(value, str):
            raise self._error(event, f"key {value!r} is not a word")
        top = self._stack[-1]
        if value in top.value:
            message = f"key {value!r} stands twice"
            if not self._policy.twice:
                raise self._error(event, message)
            self._problems.append(Problem(message, self._place(event)))
        top.key = value
        top.key_place = self._place(event)

    def _attach(self, event: Any, value: Any, node: Node) -> None:
        if not self._stack:
            self._root = (value, node)
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.node.inside[len(top.value)] = node
            top.value.append(value)
            return
        if self._merges():
            raise self._error(event, f"{MERGE} takes a mapping or a list of them")
        key, node.key = str(top.key), top.key_place
        top.node.inside[key] = node
        top.value[key] = value
        top.key = top.key_place = None

    def _merge(self, event: Any, source: _Sized) -> None:
        """Note what `<<` brings in: one mapping, or a list whose first ones win."""
        top = self._stack[-1]
        top.key = None
        several = isinstance(source.value, list)
        parts = source.value if several else [source.value]
        for index, part in enumerate(parts):
            if not isinstance(part, dict):
                raise self._error(event, f"{MERGE} takes a mapping or a list of them")
            node = source.node.inside[index] if several else source.node
            top.merged.append(_Sized(part, node, 0, 0))

    def _value(self, event: Any) -> Any:
        if event.tag is not None:
            return self._scalars.tagged(event.tag, event.value)
        if not event.implicit[0]:
            return event.value  # quoted: a text
        try:
            return self._scalars.plain(event.value)
        except OddNumber as error:
            if self._policy.loose:
                return event.value
            raise self._error(event, str(error)) from None

    # -- bounds and complaints --------------------------------------------------------------

    def _check(self, event: Any) -> None:
        if event.anchor is not None and not self._policy.anchors:
            raise self._error(event, f"anchor &{event.anchor} is not allowed; write the value out")
        if event.tag is not None and not self._policy.tags:
            raise self._error(event, f"tag {event.tag} is not allowed")

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > self._policy.max_values:
            most = self._policy.max_values
            raise self._error(event, f"holds more than the {most:,} values that can be right")

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return (self._first_line + mark.line + 1, mark.column + 1)

    def _too_deep(self, event: Any) -> InputError:
        return self._error(event, f"is nested deeper than {self._policy.max_depth} levels")

    def _error(self, event: Any, message: str) -> InputError:
        return self._policy.error(message, where=located(self._name, self._place(event)))


def _fill(mapping: _Open) -> None:
    """Put merged keys under a mapping's own, in place: its parent holds it already."""
    own = dict(mapping.value)
    places = dict(mapping.node.inside)
    for source in reversed(mapping.merged):
        mapping.value.update(source.value)
        mapping.node.inside.update(source.node.inside)
    mapping.value.update(own)
    mapping.node.inside.update(places)


def _wrapped(event: Any, value: Any, node: Node) -> tuple[Any, Node]:
    """A container with a tag of another tool: `{"!Sub": [...]}`, as its long form would be."""
    outer = Node(node.place)
    outer.inside[short(event.tag)] = node
    return {short(event.tag): value}, outer
