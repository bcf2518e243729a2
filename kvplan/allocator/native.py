"""The caching allocator itself: malloc, free, empty_cache, and the figures after each.

A request looks for the smallest free block of its pool that holds it. Without one, memory comes
from the driver; if the driver (or the process limit) refuses, cached memory is given back and the
driver asked again. A block found is split when enough remains, else charged whole.

Source: PyTorch 2.6 to 2.14, c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from kvplan.allocator.blocks import (
    Block,
    BlockSet,
    Pool,
    by_size_and_address,
    by_size_and_age,
)
from kvplan.allocator.config import AllocatorConfig
from kvplan.allocator.device import DeviceMemory
from kvplan.allocator.expandable import ExpandableSegments
from kvplan.allocator.options import AllocatorConfigError
from kvplan.allocator.rounding import MIN_BLOCK, SMALL_MAX, round_size, segment_size
from kvplan.allocator.segments import MallocSegments, SegmentSource
from kvplan.allocator.stats import AllocatorStats, OutOfDeviceMemory


class CachingAllocator:
    """One process on one device with one stream.

    Usage:
        allocator = CachingAllocator(AllocatorConfig(), total_bytes=80 * 1024**3)
        tensor = allocator.malloc(2_048_000)
        allocator.stats.allocated.current  # 2_048_000
        allocator.free(tensor)

    Args:
        config: the options, `AllocatorConfig.parse(...)`.
        total_bytes: memory of the device as `torch.cuda.mem_get_info()` gives it.
        other_bytes: held by others: the CUDA context, other processes.
        memory_fraction: as `torch.cuda.set_per_process_memory_fraction` sets it; None: not called,
            so the option `per_process_memory_fraction` decides.

    Raises:
        AllocatorConfigError: the backend's figures follow other rules, or the fraction is none.
    """

    def __init__(
        self,
        config: AllocatorConfig,
        *,
        total_bytes: int,
        other_bytes: int = 0,
        memory_fraction: float | None = None,
    ) -> None:
        if config.backend != "native":
            raise AllocatorConfigError(
                f"figures of backend {config.backend!r} are the driver pool's and do not follow "
                "from the caching allocator's rules"
            )
        self.config = config
        self.stats = AllocatorStats()
        self.device = DeviceMemory(total_bytes=total_bytes, used_bytes=other_bytes)
        self.limit_bytes = config.limit_bytes(total_bytes, memory_fraction)
        self._rejection_bytes = config.rejection_bytes(total_bytes)
        self._small = self._make_pool(is_small=True)
        self._large = self._make_pool(is_small=False)
        self._source = self._make_source()
        self._live: dict[int, Block | None] = {}
        self._next_handle = 0

    def malloc(self, nbytes: int) -> int:
        """Allocate `nbytes`; returns a handle for `free`. A tensor of 0 bytes takes nothing.

        Raises:
            OutOfDeviceMemory: the request does not fit, even with the cache given back.
        """
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        block = self._allocate(nbytes) if nbytes else None
        self._next_handle += 1
        self._live[self._next_handle] = block
        return self._next_handle

    def free(self, handle: int) -> None:
        """Free an allocation; its block is cached, merged with free neighbours.

        Raises:
            KeyError: the handle was never given out, or is already freed.
        """
        block = self._live.pop(handle)
        if block is None:
            return
        self.stats.allocations.subtract(1)
        self.stats.allocated.subtract(block.size)
        self.stats.requested.subtract(block.requested)
        block.state = "free"
        block.absorb_neighbours()
        block.pool.add(block)

    def empty_cache(self) -> None:
        """`torch.cuda.empty_cache()`: give back all memory that holds nothing in use."""
        self._source.release_cached(self._large)
        self._source.release_cached(self._small)

    def _make_pool(self, *, is_small: bool) -> Pool:
        order = by_size_and_age if self.config.ties_by_age else by_size_and_address
        return Pool(is_small=is_small, inactive_split=self.stats.inactive_split, order=order)

    def _make_source(self) -> SegmentSource:
        if self.config.expandable_segments:
            return ExpandableSegments(
                device=self.device,
                reserved=self.stats.reserved,
                large_page=self.config.large_segment_bytes,
            )
        return MallocSegments(
            device=self.device,
            reserved=self.stats.reserved,
            segments=self.stats.segments,
            large_segment=self.config.large_segment_bytes,
            max_split=self.config.max_split_bytes,
        )

    def _allocate(self, nbytes: int) -> Block:
        size = round_size(nbytes, self.config.roundup_power2_divisions)
        pool = self._small if size <= SMALL_MAX else self._large
        block = self._find_free(pool, size) or self._get_more(pool, size)
        if block is None:
            self.stats.ooms += 1
            raise self._out_of_memory(size)
        return self._use(block, size, nbytes)

    def _find_free(self, pool: Pool, size: int) -> Block | None:
        """The best fitting free block, taken out of the pool."""
        if self._collects_garbage:
            pool.searches += 1
        index = pool.free.first_at_least(size)
        if index == len(pool.free):
            return None
        if self.config.expandable_segments:
            index = _least_growth(pool.free, index)
        block = pool.free[index]
        if not self._may_serve(block.size, size):
            return None
        pool.remove(block)
        return block

    def _may_serve(self, block_size: int, size: int) -> bool:
        """Oversize blocks serve oversize requests only, and those with limited waste."""
        if self.config.is_oversize(size):
            return block_size < size + self.config.max_non_split_rounding_bytes
        return not self.config.is_oversize(block_size)

    def _get_more(self, pool: Pool, size: int) -> Block | None:
        """Memory from the driver, giving back cached memory as far as needed."""
        if self._collects_garbage:
            self._collect_garbage()
        block = self._ask_driver(pool, size)
        if block is None and self._source.release_oversize(pool, size):
            block = self._ask_driver(pool, size)
        if block is None:
            self.empty_cache()
            self.stats.retries += 1
            block = self._ask_driver(pool, size)
        return block

    def _ask_driver(self, pool: Pool, size: int) -> Block | None:
        """New memory; None when it exceeds the process limit or the driver has no more."""
        # limits count a whole segment, even where only some pages would be mapped
        segment = segment_size(size, self.config.large_segment_bytes)
        wanted = self.stats.reserved.current + segment
        if self.limit_bytes is not None and wanted > self.limit_bytes:
            return None
        if self._rejection_bytes is not None and wanted > self._rejection_bytes:
            self.stats.rejections += 1
            raise self._out_of_memory(size)
        return self._source.obtain(pool, size)

    @property
    def _collects_garbage(self) -> bool:
        return self.limit_bytes is not None and self.config.garbage_collection_threshold > 0

    def _collect_garbage(self) -> None:
        assert self.limit_bytes is not None
        threshold = int(self.config.garbage_collection_threshold * self.limit_bytes)
        self._source.collect_garbage(self._large, self.stats.reserved.current - threshold)

    def _use(self, block: Block, size: int, nbytes: int) -> Block:
        """Charge the block, split down to `size` where the rest is worth keeping."""
        if self._worth_splitting(block, size):
            rest, block = block, block.split_front(size)
            rest.pool.add(rest)
        block.state = "used"
        block.requested = nbytes
        self.stats.allocations.add(1)
        self.stats.allocated.add(block.size)
        self.stats.requested.add(nbytes)
        return block

    def _worth_splitting(self, block: Block, size: int) -> bool:
        rest = block.size - size
        if block.pool.is_small or self.config.expandable_segments:
            return rest >= MIN_BLOCK
        return rest > SMALL_MAX and not self.config.is_oversize(size)

    def _out_of_memory(self, size: int) -> OutOfDeviceMemory:
        reserved = self.stats.reserved.current
        device_limit = reserved + self.device.free_bytes
        limit = device_limit if self.limit_bytes is None else min(device_limit, self.limit_bytes)
        return OutOfDeviceMemory(size, reserved, limit)


def _least_growth(free: BlockSet, index: int) -> int:
    """From the best fit on, move to the next larger block while that one could grow to less.

    A free block before unmapped space counts with that space, so the end of a segment is used last.
    """
    while index + 1 < len(free) and _grown_size(free[index + 1]) < _grown_size(free[index]):
        index += 1
    return index


def _grown_size(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and after.state == "unmapped" else 0)
