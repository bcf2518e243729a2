"""Blocks: pieces of a segment, in use or free; pools: the free ones, in the allocator's order.

Neighbours in a segment are linked (`prev`, `next`), so a freed block can be merged with free
neighbours. A free block that has a neighbour is "split": its segment cannot go back to the driver.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from kvplan.allocator.stats import Gauge

Key = tuple[int, int]

_serials = itertools.count()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segment:
    """Address space of an expandable segment, from `base` on, mapped in steps of `page` bytes."""

    base: int
    page: int


@dataclass(slots=True, eq=False, kw_only=True)
class Block:
    """`size` bytes at `address`; one state at a time: in use, free, or not mapped at all."""

    address: int
    size: int
    pool: Pool
    state: Literal["used", "free", "unmapped"] = "free"
    segment: Segment | None = None  # set in expandable segments only
    requested: int = 0  # bytes asked for, while in use
    freed_at: int = 0  # the pool's count of searches when the block became free
    serial: int = field(default_factory=_serials.__next__)  # order of creation
    prev: Block | None = None
    next: Block | None = None

    @property
    def is_split(self) -> bool:
        return self.prev is not None or self.next is not None

    @property
    def end(self) -> int:
        return self.address + self.size

    def split_front(self, size: int) -> Block:
        """Cut the first `size` bytes off into a new block; this one, in no set, keeps the rest."""
        front = self._part(self.address, size)
        front.prev, front.next = self.prev, self
        if self.prev is not None:
            self.prev.next = front
        self.prev = front
        self.address += size
        self.size -= size
        return front

    def split_back(self, size: int) -> Block:
        """Keep the first `size` bytes in this block, in no set; a new one gets the rest."""
        back = self._part(self.address + size, self.size - size)
        back.prev, back.next = self, self.next
        if self.next is not None:
            self.next.prev = back
        self.next = back
        self.size = size
        return back

    def absorb_neighbours(self) -> None:
        """Merge with each neighbour that is in the same state; this block must be in no set."""
        for other in (self.prev, self.next):
            if other is not None and other.state == self.state:
                self.pool.remove(other)
                self._absorb(other)

    def _part(self, address: int, size: int) -> Block:
        return Block(
            address=address, size=size, pool=self.pool, state=self.state, segment=self.segment
        )

    def _absorb(self, other: Block) -> None:
        if other is self.prev:
            self.address = other.address
            self.prev = other.prev
            if self.prev is not None:
                self.prev.next = self
        else:
            self.next = other.next
            if self.next is not None:
                self.next.prev = self
        self.size += other.size


class BlockSet:
    """Blocks sorted by a key; keys are unique, because addresses and serials are."""

    def __init__(self, key: Callable[[Block], Key]) -> None:
        self._key = key
        self._keys: list[Key] = []
        self._blocks: list[Block] = []

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> Block:
        return self._blocks[index]

    def add(self, block: Block) -> None:
        key = self._key(block)
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._blocks.insert(index, block)

    def remove(self, block: Block) -> None:
        index = bisect_left(self._keys, self._key(block))
        del self._keys[index]
        del self._blocks[index]

    def first_at_least(self, size: int) -> int:
        """Index of the first block whose key is not below `(size, 0)`."""
        return bisect_left(self._keys, (size, 0))


def by_size_and_address(block: Block) -> Key:
    """Smallest first, of equal ones the lowest."""
    return block.size, block.address


def by_size_and_age(block: Block) -> Key:
    """Smallest first, of equal ones the oldest."""
    return block.size, block.serial


def _by_address(block: Block) -> Key:
    return block.address, 0


@dataclass(slots=True, eq=False, kw_only=True)
class Pool:
    """Free and unmapped blocks of one size class.

    Attributes:
        is_small: serves sizes up to 1 MiB.
        inactive_split: gauge shared by all pools, kept up to date on every add and remove.
        order: of the free blocks: smallest first, ties by address or by age.
        free: mapped and not in use.
        unmapped: address space without memory (expandable segments), by address.
        searches: requests seen while garbage collection is on; the clock of a block's age.
    """

    is_small: bool
    inactive_split: Gauge
    order: Callable[[Block], Key] = by_size_and_address
    free: BlockSet = field(init=False)
    unmapped: BlockSet = field(default_factory=lambda: BlockSet(_by_address))
    searches: int = 0

    def __post_init__(self) -> None:
        self.free = BlockSet(self.order)

    def add(self, block: Block) -> None:
        """File a free or unmapped block under its state."""
        if block.state == "unmapped":
            self.unmapped.add(block)
            return
        block.freed_at = self.searches
        self.free.add(block)
        if self._is_inactive_split(block):
            self.inactive_split.add(block.size)

    def remove(self, block: Block) -> None:
        """Take a free or unmapped block out; links to its neighbours must still stand."""
        if block.state == "unmapped":
            self.unmapped.remove(block)
            return
        self.free.remove(block)
        if self._is_inactive_split(block):
            self.inactive_split.subtract(block.size)

    @staticmethod
    def _is_inactive_split(block: Block) -> bool:
        return block.is_split and block.segment is None
