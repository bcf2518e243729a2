"""What torch's allocator will say of a sequence of tensors, or why that cannot be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvplan.allocator import AllocatorConfig, CachingAllocator, OutOfDeviceMemory
from kvplan.allocator.options import AllocatorConfigError, supported_version
from kvplan.allocator.predict import ROOMY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Bytes once all tensors are allocated, or all that fit.

    Attributes:
        requested, allocated, reserved: as torch reports them; None when not predictable.
        driver: bytes gone from the device's free memory.
        allocated_peak, reserved_peak: their maxima on the way.
        fails_at: index of the tensor that does not fit; None when all do.
        reason: why nothing is predicted, else empty.
    """

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    driver: int | None = None
    allocated_peak: int | None = None
    reserved_peak: int | None = None
    fails_at: int | None = None
    reason: str = ""


def unpredictable(reason: str) -> Forecast:
    """No figures, and why."""
    return Forecast(reason=reason)


def check_options(environment: Mapping[str, str], torch_version: str) -> None:
    """Raise AllocatorConfigError for options that this torch would refuse when it starts."""
    if _unknown_version(torch_version) is None:
        AllocatorConfig.from_environment(environment, torch_version=torch_version)


def _unknown_version(torch_version: str) -> str | None:
    """Why this version's allocator is not known; None when it is."""
    try:
        supported_version(torch_version)
    except AllocatorConfigError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return None


def forecast(
    sizes: Sequence[int],
    *,
    environment: Mapping[str, str],
    torch_version: str,
    backend: str,
    total_bytes: int | None = None,
    other_bytes: int = 0,
) -> Forecast:
    """Run `sizes` through the allocator model, from an empty allocator on.

    Args:
        sizes: bytes of each tensor, in order.
        environment: where the allocator's options stand.
        torch_version: decides which options and rules exist.
        backend: the allocator that torch says it uses.
        total_bytes, other_bytes: memory of the device, and what others hold of it; without a total
            the tensors are taken to fit.

    Raises:
        AllocatorConfigError: options that this torch would refuse.
    """
    if backend != "native":
        return unpredictable(
            f"backend {backend}: the figures are the driver pool's, whose rules are not public"
        )
    unknown = _unknown_version(torch_version)
    if unknown is not None:
        return unpredictable(unknown)
    config = AllocatorConfig.from_environment(environment, torch_version=torch_version)
    if config.backend != "native":
        return unpredictable(f"backend {config.backend}: torch counts nothing it could be held to")
    if total_bytes is None and config.limit_bytes(ROOMY_BYTES, None) is not None:
        return unpredictable("a share of the device's memory is the limit")
    allocator = CachingAllocator(
        config,
        total_bytes=ROOMY_BYTES if total_bytes is None else total_bytes,
        other_bytes=other_bytes,
    )
    fails_at = _allocate(allocator, sizes)
    stats = allocator.stats
    return Forecast(
        requested=stats.requested.current,
        allocated=stats.allocated.current,
        reserved=stats.reserved.current,
        driver=allocator.device.used_bytes - other_bytes,
        allocated_peak=stats.allocated.peak,
        reserved_peak=stats.reserved.peak,
        fails_at=fails_at,
    )


def _allocate(allocator: CachingAllocator, sizes: Sequence[int]) -> int | None:
    """Allocate in order; the index of the first that does not fit, None when all do."""
    done = 0
    try:
        for size in sizes:
            allocator.malloc(size)
            done += 1
    except OutOfDeviceMemory:
        return done
    return None
