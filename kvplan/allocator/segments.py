"""Segments from cudaMalloc: taken whole, given back whole, once nothing in them is in use.

Three occasions to give back: the whole cache (`empty_cache`, or a request that does not fit),
blocks beyond `max_split_size_mb` for a request that does not fit, and garbage collection by age.

Source: PyTorch 2.6 to 2.14, c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kvplan.allocator.blocks import Block, Pool
from kvplan.allocator.device import DeviceMemory
from kvplan.allocator.rounding import segment_size
from kvplan.allocator.stats import Gauge


class SegmentSource(Protocol):
    """Where free blocks come from, and how they go back to the driver."""

    def obtain(self, pool: Pool, size: int) -> Block | None:
        """A new free block of at least `size` bytes, in no set; None without memory."""

    def release_cached(self, pool: Pool) -> None:
        """Give back everything in the pool that can be given back."""

    def release_oversize(self, pool: Pool, size: int) -> bool:
        """Give back just enough oversize blocks for `size` bytes; whether that succeeded."""

    def collect_garbage(self, pool: Pool, wanted: int) -> None:
        """Give back old blocks until `wanted` bytes are reached or none is left."""


@dataclass(slots=True, frozen=True, kw_only=True)
class MallocSegments:
    """One cudaMalloc per segment.

    Args:
        device: where segments come from.
        reserved, segments: the allocator's gauges of bytes and of segments held.
        large_segment: bytes of a segment for sizes above 1 MiB and below 10 MiB.
        max_split: from here on a block is oversize; None: no block is.
    """

    device: DeviceMemory
    reserved: Gauge
    segments: Gauge
    large_segment: int
    max_split: int | None

    def obtain(self, pool: Pool, size: int) -> Block | None:
        nbytes = segment_size(size, self.large_segment)
        if not self.device.take(nbytes):
            return None
        self.reserved.add(nbytes)
        self.segments.add(1)
        return Block(address=self.device.place(nbytes), size=nbytes, pool=pool)

    def release_cached(self, pool: Pool) -> None:
        for block in list(pool.free):
            if not block.is_split:
                self._release(block)

    def release_oversize(self, pool: Pool, size: int) -> bool:
        """One block of at least `size`, else the largest ones until their sum reaches it."""
        if self.max_split is None:
            return False
        wanted = max(size, self.max_split)
        index = pool.free.first_at_least(wanted)
        if index < len(pool.free):
            self._release(pool.free[index])
            return True
        released = 0
        for block in reversed(list(pool.free)):
            if released >= wanted or block.size < self.max_split:
                break
            self._release(block)
            released += block.size
        return released >= wanted

    def collect_garbage(self, pool: Pool, wanted: int) -> None:
        """Rounds over the unsplit blocks: each frees those at or above the average age."""
        reclaimed = 0
        while reclaimed < wanted:
            blocks = [block for block in pool.free if not block.is_split]
            if not blocks:
                return
            ages = [pool.searches - block.freed_at for block in blocks]
            average = sum(ages) / len(ages)
            for block, age in zip(blocks, ages, strict=True):
                if age >= average:
                    self._release(block)
                    reclaimed += block.size

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.device.give_back(block.size)
        self.reserved.subtract(block.size)
        self.segments.subtract(1)
