"""`memory_allocated()` and `memory_reserved()` after a list of tensors, allocated in order."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.allocator.config import AllocatorConfig
from kvplan.allocator.native import CachingAllocator
from kvplan.allocator.options import AllocatorConfigError
from kvplan.named_tuple import NamedTuple

#: Stands for a device whose size plays no part: larger than any request.
ROOMY_BYTES = 1 << 60


class Prediction(NamedTuple):
    """Bytes that torch reports once all tensors are allocated."""

    allocated: int
    reserved: int


def predict(
    sizes: Iterable[int],
    *,
    config: AllocatorConfig | None = None,
    total_bytes: int | None = None,
    other_bytes: int = 0,
    memory_fraction: float | None = None,
) -> Prediction:
    """Allocate `sizes` (bytes of each tensor, in order) in a fresh process and keep them all.

    Args:
        sizes: bytes of each tensor.
        config: the allocator's options; None: torch's defaults.
        total_bytes: memory of the device; None: the tensors are known to fit.
        other_bytes, memory_fraction: as for CachingAllocator.

    Raises:
        OutOfDeviceMemory: they do not fit.
        AllocatorConfigError: the backend's figures cannot be predicted, or the limit is a share of
            a device whose size was not given.
    """
    config = config or AllocatorConfig()
    if config.backend == "uncached":
        return Prediction(0, 0)
    if total_bytes is None and config.limit_bytes(ROOMY_BYTES, memory_fraction) is not None:
        raise AllocatorConfigError(
            "a memory fraction says nothing without the device's total bytes"
        )
    allocator = CachingAllocator(
        config,
        total_bytes=ROOMY_BYTES if total_bytes is None else total_bytes,
        other_bytes=other_bytes,
        memory_fraction=memory_fraction,
    )
    for nbytes in sizes:
        allocator.malloc(nbytes)
    return Prediction(allocator.stats.allocated.current, allocator.stats.reserved.current)
