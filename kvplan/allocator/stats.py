"""The counters of `torch.cuda.memory_stats()` that the model keeps, and its out-of-memory error.

Names and meanings follow torch: allocated counts whole blocks in use (rounding and unsplit
remainders included), requested the bytes asked for, reserved what is held from the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Gauge:
    """A quantity and its maximum so far."""

    current: int = 0
    peak: int = 0

    def add(self, amount: int) -> None:
        self.current += amount
        self.peak = max(self.peak, self.current)

    def subtract(self, amount: int) -> None:
        self.current -= amount

    def reset_peak(self) -> None:
        self.peak = self.current


@dataclass(slots=True)
class AllocatorStats:
    """Bytes and counts after the operations so far, both pools together.

    Attributes:
        allocated: bytes of blocks in use, `memory_allocated()`.
        reserved: bytes held from the driver, `memory_reserved()`.
        requested: bytes asked for by the allocations in use.
        inactive_split: bytes of free blocks that share a segment with others (the driver cannot
            take them back); expandable segments are not counted.
        segments: cudaMalloc'ed segments; pages of expandable segments are not counted.
        allocations: allocations in use.
        retries: times the whole cache was given back to serve a request.
        ooms: requests refused after that.
        rejections: requests refused up front under `throw_on_cudamalloc_oom`.
    """

    allocated: Gauge = field(default_factory=Gauge)
    reserved: Gauge = field(default_factory=Gauge)
    requested: Gauge = field(default_factory=Gauge)
    inactive_split: Gauge = field(default_factory=Gauge)
    segments: Gauge = field(default_factory=Gauge)
    allocations: Gauge = field(default_factory=Gauge)
    retries: int = 0
    ooms: int = 0
    rejections: int = 0

    @property
    def active(self) -> Gauge:
        """Bytes in use or awaiting another stream: with one stream the same as `allocated`."""
        return self.allocated

    def gauges(self) -> tuple[Gauge, ...]:
        """Every quantity that has a peak."""
        return (
            self.allocated,
            self.reserved,
            self.requested,
            self.inactive_split,
            self.segments,
            self.allocations,
        )

    def reset_peaks(self) -> None:
        """`torch.cuda.reset_peak_memory_stats()`: every peak becomes its current value."""
        for gauge in self.gauges():
            gauge.reset_peak()


class OutOfDeviceMemory(Exception):
    """A request that the device or the process limit cannot serve, as `torch.OutOfMemoryError`.

    Attributes:
        requested_bytes: bytes of the request, rounded.
        reserved_bytes: bytes held from the driver at that moment.
        limit_bytes: what the process may hold: the fraction's limit or the device's free rest.
    """

    def __init__(self, requested_bytes: int, reserved_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{requested_bytes} bytes do not fit beside {reserved_bytes} reserved bytes "
            f"within {limit_bytes} bytes"
        )
        self.requested_bytes = requested_bytes
        self.reserved_bytes = reserved_bytes
        self.limit_bytes = limit_bytes
