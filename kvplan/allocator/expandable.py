"""Expandable segments: address space reserved once, memory mapped into it page by page.

A segment reserves 9/8 of the device's memory as address space, so one per pool is enough until
address space itself runs out. Pages are 2 MiB in the small pool and 20 MiB (large_segment_size_mb)
in the large one. A page can go back to the driver as soon as no block in use touches it.

Source: PyTorch 2.6 to 2.14, c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.allocator.blocks import Block, Pool, Segment
from kvplan.allocator.device import DeviceMemory
from kvplan.allocator.rounding import SMALL_SEGMENT
from kvplan.allocator.stats import Gauge
from kvplan.arithmetic import round_up


@dataclass(slots=True, frozen=True, kw_only=True)
class ExpandableSegments:
    """Maps and unmaps the pages of one allocator's segments.

    Args:
        device: where pages come from.
        reserved: the allocator's gauge of bytes held.
        large_page: page size of the large pool in bytes.
    """

    device: DeviceMemory
    reserved: Gauge
    large_page: int

    def obtain(self, pool: Pool, size: int) -> Block | None:
        """A free block of at least `size` bytes, taken out of its pool; None without memory.

        Pages mapped before memory ran out stay mapped, as free blocks.
        """
        block: Block | None = self._lowest_fit(pool, size)
        if block is not None and block.state == "unmapped":
            block = self._map(block, min(block.size, size))
        while block is not None and block.size < size:
            gap = block.next  # unmapped, for `block` begins at least `size` bytes of room
            assert gap is not None
            block = self._map(gap, min(size - block.size, gap.size))
        if block is not None:
            pool.remove(block)
        return block

    def release_cached(self, pool: Pool) -> None:
        """Unmap every page that lies wholly inside a free block; drop segments left empty."""
        for block in list(pool.free):
            self._unmap(block)
            if not block.is_split:  # it has become the whole segment
                pool.remove(block)

    def release_oversize(self, pool: Pool, size: int) -> bool:
        """Nothing: only segments from cudaMalloc are given back one by one."""
        return False

    def collect_garbage(self, pool: Pool, wanted: int) -> None:
        """Nothing, for the same reason."""

    def _lowest_fit(self, pool: Pool, size: int) -> Block:
        """The lowest block from which `size` bytes of free or unmapped space follow."""
        for gap in pool.unmapped:
            before = gap.prev
            start = before if before is not None and before.state == "free" else gap
            if _has_room(start, size):
                return start
        return self._open_segment(pool)

    def _open_segment(self, pool: Pool) -> Block:
        page = SMALL_SEGMENT if pool.is_small else self.large_page
        total = self.device.total_bytes
        size = round_up(total + total // 8, page)
        segment = Segment(base=self.device.place(size), page=page)
        block = Block(address=segment.base, size=size, pool=pool, state="unmapped", segment=segment)
        pool.add(block)
        return block

    def _map(self, gap: Block, size: int) -> Block | None:
        """Map the first `size` bytes of an unmapped block, in whole pages, all or nothing.

        Returns:
            The block, now free and merged with its free neighbours, in its pool.
        """
        assert gap.segment is not None
        nbytes = round_up(size, gap.segment.page)  # unmapped space begins and ends on a page
        if not self.device.take(nbytes):
            return None
        pool = gap.pool
        pool.remove(gap)
        if nbytes < gap.size:
            pool.add(gap.split_back(nbytes))
        gap.state = "free"
        gap.absorb_neighbours()
        pool.add(gap)
        self.reserved.add(nbytes)
        return gap

    def _unmap(self, block: Block) -> None:
        """Unmap the whole pages inside a free block; what is left at either end stays free."""
        start, end = _whole_pages(block)
        if start >= end:
            return
        pool = block.pool
        pool.remove(block)
        if start > block.address:
            pool.add(block.split_front(start - block.address))
        if end < block.end:
            pool.add(block.split_back(end - start))
        block.state = "unmapped"
        block.absorb_neighbours()
        pool.add(block)
        self.device.give_back(end - start)
        self.reserved.subtract(end - start)


def _has_room(block: Block | None, size: int) -> bool:
    """Whether `size` bytes follow from this block on before the next block in use."""
    room = 0
    while room < size and block is not None and block.state != "used":
        room += block.size
        block = block.next
    return room >= size


def _whole_pages(block: Block) -> tuple[int, int]:
    """First address of the first page that begins in the block, and end of the last that ends."""
    assert block.segment is not None
    base, page = block.segment.base, block.segment.page
    return (
        base + round_up(block.address - base, page),
        base + (block.end - base) // page * page,
    )
