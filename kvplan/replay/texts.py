"""Which blocks have the same text: a tree of prefixes, a node for each unit of tokens.

A block's hash covers all text before it, so two blocks are equal when they end in the same node at
the same place. What only one request has (the tail of its prompt, its output) stands in a node of
its own. A node lives while the pool holds blocks of it, or a request still has to come to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.arithmetic import ceil_div
from kvplan.replay.request import Request

if TYPE_CHECKING:
    from kvplan.replay.pool import Run

_ENDLESS = 1 << 60


class Node:
    """A unit of text behind its parent's.

    Attributes:
        runs: for each group, its hashed blocks here in order of insertion; the first is found.
        live: runs and requests that need the node.
    """

    __slots__ = ("children", "key", "live", "parent", "runs")

    def __init__(self, parent: Node | None, key: int) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[int, Node] = {}
        self.runs: dict[int, list[Run]] = {}
        self.live = 0

    def insert(self, run: Run) -> None:
        """Make a run findable."""
        found = self.runs.get(run.group)
        if found is None:
            self.runs[run.group] = [run]
        else:
            found.append(run)
        self.live += 1

    def replace(self, run: Run, parts: list[Run]) -> None:
        """Put the parts of a run in its place."""
        found = self.runs[run.group]
        place = found.index(run)
        found[place : place + 1] = parts
        self.live += len(parts) - 1

    def drop(self, run: Run) -> None:
        """A run that was evicted."""
        found = self.runs[run.group]
        found.remove(run)
        if not found:
            del self.runs[run.group]
        self.leave()

    def leave(self) -> None:
        """One user less; nodes that nobody needs go."""
        self.live -= 1
        node = self
        while not node.live and not node.children and node.parent is not None:
            parent = node.parent
            del parent.children[node.key]
            node = parent


class Texts:
    """All prefixes that are findable.

    Args:
        unit: tokens of one id.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._root = Node(None, 0)
        self._root.live = 1

    def shared(self, request: Request) -> int:
        """Tokens of its prompt that others may have too."""
        return min(request.prompt, len(request.ids) * self.unit) if request.ids else 0

    def path(self, request: Request) -> list[Node]:
        """The nodes of a request's text, its own last."""
        if request.path is None:
            node = self._root
            path = []
            if request.ids:
                for key in request.ids[: ceil_div(self.shared(request), self.unit)]:
                    child = node.children.get(key)
                    if child is None:
                        child = node.children[key] = Node(node, key)
                    path.append(child)
                    node = child
                node.live += 1
            path.append(Node(None, 0))
            request.path = path
        return request.path

    def leave(self, request: Request) -> None:
        """A request that will not be looked up again."""
        path = request.path
        if path is not None and len(path) > 1:
            path[-2].leave()
        request.path = None

    def spans(self, request: Request, size: int, start: int) -> Iterator[tuple[Node, int, int]]:
        """(node, first block, end) of a request's text from block `start` on."""
        path = self.path(request)
        shared = self.shared(request)
        unit = self.unit
        first = start * size // unit
        for index in range(first, len(path) - 1):
            low = unit * index // size
            high = min(unit * (index + 1), shared) // size
            if low < high and start < high:
                yield path[index], low, high
        yield path[-1], shared // size, _ENDLESS

    def spans_back(self, request: Request, size: int, end: int) -> Iterator[tuple[Node, int, int]]:
        """(node, first block, end) of a request's text below block `end`, last first."""
        path = self.path(request)
        shared = self.shared(request)
        unit = self.unit
        own = shared // size
        if own < end:
            yield path[-1], own, end
        last = min(len(path) - 2, (end * size - 1) // unit)
        for index in range(last, -1, -1):
            low = unit * index // size
            high = min(min(unit * (index + 1), shared) // size, end)
            if low < high:
                yield path[index], low, high
