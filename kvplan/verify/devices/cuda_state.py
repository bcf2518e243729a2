"""The figures of torch's CUDA allocator and of the driver at one moment."""

from __future__ import annotations

from typing import Any

from kvplan.named_tuple import NamedTuple


class State(NamedTuple):
    """Bytes at one moment.

    Attributes:
        requested: asked for by the tensors alive (`requested_bytes`).
        allocated, reserved: `memory_allocated()`, `memory_reserved()`.
        allocated_peak, reserved_peak: their maxima since the last reset.
        free, total: the driver's, for the whole device.
    """

    requested: int
    allocated: int
    reserved: int
    allocated_peak: int
    reserved_peak: int
    free: int
    total: int


def read_state(torch: Any, index: int) -> State:
    """The figures of one device now."""
    stats = torch.cuda.memory_stats(index)
    free, total = torch.cuda.mem_get_info(index)

    def stat(name: str, moment: str) -> int:
        return int(stats.get(f"{name}_bytes.all.{moment}", 0))  # no entry before the first use

    return State(
        requested=stat("requested", "current"),
        allocated=stat("allocated", "current"),
        reserved=stat("reserved", "current"),
        allocated_peak=stat("allocated", "peak"),
        reserved_peak=stat("reserved", "peak"),
        free=int(free),
        total=int(total),
    )
