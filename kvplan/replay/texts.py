"""Which blocks have the same text: a tree of prefixes, a node for each unit of tokens.

A block's hash covers all text before it, so two blocks are equal when they end in the same node at
the same place. What only one request has (the tail of its prompt, its output) stands in a node of
its own. A node lives while the pool holds blocks of it, or a request still has to come to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arithmetic import ceil_div
from kvplan.replay.nodes import Node
from kvplan.replay.request import Request

_ENDLESS = 1 << 60


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
        low = -1
        for index in range(start * size // unit, len(path) - 1):
            end = unit * (index + 1)
            high = (end if end < shared else shared) // size
            if low < 0:
                low = unit * index // size
            if low < high:
                if start < high:
                    yield path[index], low, high
                low = high
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
