"""What a run of the reference transformer remembers between its steps: everything, or nothing.

    Cache      storage; a step brings only its new tokens
    NoCache    no storage; a step brings the whole sequence again

The transformer asks both the same questions, so what is compared is the memory and nothing else.
What a format rounds is rounded in both: what is left to differ is whether the storage gives it
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from kvplan.named_tuple import NamedTuple
from kvplan.spec.states import State
from kvplan.verify.decode.kept import Piece, Vectors, first_visible, span_of
from kvplan.verify.decode.storage import Fixed, Rows


class Key(NamedTuple):
    """One state of one layer, counted from 0."""

    layer: int
    state: int


class Seen(NamedTuple):
    """Rows (batch, tokens, count, dim) of the positions first, first + 1, ..."""

    rows: tuple[Tensor, ...]
    first: int


class Memory:
    """The questions both answer. `seen` holds what each state gave to the step in progress."""

    cached: bool

    def __init__(self) -> None:
        self.seen: dict[Key, Seen] = {}

    def extend(self, key: Key, state: State, rows: Sequence[Tensor], start: int) -> Seen:
        """Take the rows of new tokens, the first at `start`; give those that they can see."""
        raise NotImplementedError

    def once(self, key: Key, make: Callable[[], Sequence[Tensor]]) -> Seen:
        """Rows that are made at the first step and never change."""
        raise NotImplementedError

    def dtype(self, key: Key, piece: int) -> torch.dtype:
        """The element type of a piece."""
        raise NotImplementedError

    def carried(self, key: Key) -> tuple[Tensor, ...] | None:
        """The pieces as the last step left them; None when nothing is remembered."""
        raise NotImplementedError

    def carry(self, key: Key, pieces: Sequence[Tensor]) -> None:
        """Leave the pieces (batch, ...) to the next step."""
        raise NotImplementedError


class NoCache(Memory):
    """Remembers nothing; knows the formats, to round as storage would."""

    cached = False

    def __init__(
        self,
        vectors: Mapping[Key, Sequence[Vectors]],
        pieces: Mapping[Key, Sequence[Piece]],
    ) -> None:
        super().__init__()
        self._vectors = vectors
        self._pieces = pieces

    def extend(self, key: Key, state: State, rows: Sequence[Tensor], start: int) -> Seen:
        self.seen[key] = Seen(rounded(self._vectors[key], rows), start)
        return self.seen[key]

    def once(self, key: Key, make: Callable[[], Sequence[Tensor]]) -> Seen:
        return Seen(rounded(self._vectors[key], make()), 0)

    def dtype(self, key: Key, piece: int) -> torch.dtype:
        return self._pieces[key][piece].dtype

    def carried(self, key: Key) -> tuple[Tensor, ...] | None:
        return None

    def carry(self, key: Key, pieces: Sequence[Tensor]) -> None:
        pass


class Cache(Memory):
    """Remembers what its storage holds."""

    cached = True

    def __init__(self, rows: Mapping[Key, Rows], fixed: Mapping[Key, Fixed]) -> None:
        super().__init__()
        self.rows = rows
        self.fixed = fixed
        self._made: dict[Key, int] = {}  # rows that `once` has stored

    @property
    def bytes(self) -> int:
        """Bytes of all tensors of the storage."""
        growing = sum(store.bytes for store in self.rows.values())
        return growing + sum(store.bytes for store in self.fixed.values())

    def copy(self) -> Cache:
        """The same content in storage of its own."""
        found = Cache(
            {key: store.copy() for key, store in self.rows.items()},
            {key: store.copy() for key, store in self.fixed.items()},
        )
        found._made = dict(self._made)
        return found

    def extend(self, key: Key, state: State, rows: Sequence[Tensor], start: int) -> Seen:
        store, last = self.rows[key], start + rows[0].shape[1]
        first, span = first_visible(state, start), span_of(state)
        if span is None or last - first <= span:
            store.write(rows, start)
            self.seen[key] = Seen(store.read(first, last), first)
            return self.seen[key]
        # A long prompt meets a short window: the new tokens push out what the first of them still
        # see. So the past is read before it is overwritten, and only the last tokens are stored.
        past = store.read(first, start)
        tail = max(start, last - span)
        store.write([row[:, tail - start :] for row in rows], tail)
        new = rounded(store.vectors, rows)
        self.seen[key] = Seen(
            tuple(torch.cat(pair, dim=1) for pair in zip(past, new, strict=True)), first
        )
        return self.seen[key]

    def once(self, key: Key, make: Callable[[], Sequence[Tensor]]) -> Seen:
        if key not in self._made:
            rows = make()
            self.rows[key].write(rows, 0)
            self._made[key] = rows[0].shape[1]
        return Seen(self.rows[key].read(0, self._made[key]), 0)

    def dtype(self, key: Key, piece: int) -> torch.dtype:
        return self.fixed[key].pieces[piece].dtype

    def carried(self, key: Key) -> tuple[Tensor, ...] | None:
        return self.fixed[key].read()

    def carry(self, key: Key, pieces: Sequence[Tensor]) -> None:
        self.fixed[key].write(pieces)


def rounded(vectors: Sequence[Vectors], rows: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What is left of rows after being stored once."""
    return tuple(one.format.round(row) for one, row in zip(vectors, rows, strict=True))
