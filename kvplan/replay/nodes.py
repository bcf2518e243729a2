"""Units of text, runs of blocks and a request's tables of them: what the rest of replay links.

A node knows the runs that hold its text, a run the node whose text it holds.
"""

from __future__ import annotations


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


class Run:
    """Hashed blocks `low` .. `high` - 1 of one text in one group, all with the same users.

    Attributes:
        users: requests that hold it; 0 while it is free.
        parts: what it was split into; then it is no longer itself.
    """

    __slots__ = ("after", "before", "group", "high", "low", "node", "parts", "users")

    def __init__(self, group: int, low: int, high: int, node: Node | None, users: int) -> None:
        self.group = group
        self.low = low
        self.high = high
        self.node = node
        self.users = users
        self.parts: list[Run] | None = None
        self.before: Run | None = None
        self.after: Run | None = None

    def whole(self) -> list[Run]:
        """Itself, or what became of it, from the first block on."""
        if self.parts is None:
            return [self]
        return [run for part in self.parts for run in part.whole()]


class Table:
    """Blocks of one request in one group.

    Attributes:
        start: first block that is still there.
        length: blocks up to the last one.
        hashed: blocks up to which hashing was decided.
        kept: the hashed runs among `start` .. `length` - 1, in order; the rest have no hash.
    """

    __slots__ = ("hashed", "kept", "length", "start")

    def __init__(self) -> None:
        self.start = 0
        self.length = 0
        self.hashed = 0
        self.kept: list[Run] = []
