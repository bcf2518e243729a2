"""A CUDA device (ROCm builds of torch answer here too): three views of the same memory.

    tensors        what was asked for
    torch          what its caching allocator charges and reserves, predicted to the byte
    the driver     what is gone from the device's free memory; NVML shows that plus what it keeps

The allocator's figures are predicted by running the same sequence through the model of it
(`kvplan.allocator`), which starts empty; with other tensors alive nothing is predicted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kvplan.arithmetic import round_up
from kvplan.engines.layout import Tensor
from kvplan.errors import UsageError
from kvplan.units import format_bytes
from kvplan.verify.devices.cuda_checks import memory_checks
from kvplan.verify.devices.cuda_state import State, read_state
from kvplan.verify.devices.device import Advance, Measurement, Room
from kvplan.verify.devices.forecast import (
    Build,
    Forecast,
    check_options,
    forecast,
    settings_of,
    unpredictable,
)
from kvplan.verify.host_memory import host_room
from kvplan.verify.nvml import read_nvml
from kvplan.verify.tensors import (
    check_element_types,
    held_bytes,
    make,
    out_of_memory_check,
    tensor_bytes_check,
)

_DRIVER_PAGE = 2 << 20
_WARM_UP = (4 << 20, 512)  # a large and a small block


class CudaDevice:
    """One device under torch's `cuda` name."""

    def __init__(self, torch: Any, index: int) -> None:
        self._torch = torch
        self._index = index
        self.name = f"cuda:{index}"
        self._build = Build(
            version=str(torch.__version__),
            hip=getattr(torch.version, "hip", None),
            windows=os.name == "nt",
        )
        check_options(os.environ, self._build)  # torch's own complaint is a traceback
        try:
            torch.cuda.set_device(index)
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"{self.name} cannot be used: {_first_line(error)}") from None
        # Memory shared with the host: running out there ends processes, or hangs the host.
        properties = torch.cuda.get_device_properties(index)
        self._unified = bool(getattr(properties, "is_integrated", False))
        self.survives_oom = not self._unified

    def facts(self) -> dict[str, Any]:
        """Kind, name, versions, allocator, and memory by the driver and by NVML."""
        torch = self._torch
        properties = torch.cuda.get_device_properties(self._index)
        room = self.room()
        return {
            "type": "cuda",
            "index": self._index,
            "name": str(properties.name),
            "compute_capability": f"{properties.major}.{properties.minor}",
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "hip": getattr(torch.version, "hip", None),
            "allocator_backend": str(torch.cuda.get_allocator_backend()),
            "total_bytes": room.total,
            "free_bytes": room.free,
            "nvml": self._nvml(),
        }

    def room(self) -> Room:
        """The driver's figures; the host's where they share; within this process's own limit."""
        free, total = self._torch.cuda.mem_get_info(self._index)
        room = Room(int(total), int(free), "mem_get_info")
        host = host_room() if self._unified else None
        if host is not None:  # the driver counts cached files as used
            room = Room(host.total, host.free, f"unified memory, {host.origin}")
        config = settings_of(os.environ, self._build)
        limit = None if isinstance(config, str) else config.limit_bytes(room.total, None)
        if limit is not None and limit < room.free:
            return Room(room.total, limit, "per_process_memory_fraction")
        return room

    def cost(self, tensors: Sequence[Tensor]) -> int:
        """What torch will reserve for them; whole pages of the driver where that is not known."""
        found = forecast(
            [tensor.bytes for tensor in tensors],
            environment=os.environ,
            build=self._build,
            backend=str(self._torch.cuda.get_allocator_backend()),
        )
        if found.reserved is not None:
            return found.reserved
        return sum(round_up(tensor.bytes, _DRIVER_PAGE) for tensor in tensors)

    def measure(self, tensors: Sequence[Tensor], advance: Advance) -> Measurement:
        """Allocate through torch, write every byte, read the three views, free."""
        torch = self._torch
        check_element_types(torch, tensors)
        self._warm_up()
        before = read_state(torch, self._index)
        expected = self._forecast(tensors, before)
        held: list[Any] = []
        failure: str | None = None
        try:
            for tensor in tensors:
                held.append(make(torch, tensor, self.name))
                advance(tensor.bytes)
            torch.cuda.synchronize(self._index)
        except RuntimeError as error:  # OutOfMemoryError is one
            if not _is_out_of_memory(torch, error):
                raise
            failure = _first_line(error)
        finally:
            during = read_state(torch, self._index)
            nvml = self._nvml()
            sizes = [held_bytes(tensor) for tensor in held]
            held.clear()
            torch.cuda.empty_cache()
        after = read_state(torch, self._index)
        checks = [tensor_bytes_check(tensors, sizes)]
        if failure is not None:
            checks.append(out_of_memory_check(len(sizes), len(tensors), failure, expected.fails_at))
        checks += memory_checks(
            expected,
            before,
            during,
            after,
            failed_at=_failed_at(failure, sizes),
            alone=nvml is not None and nvml["processes"] <= 1,
        )
        return Measurement(tuple(checks), _notes(before, during, nvml))

    def _warm_up(self) -> None:
        """Context, kernels and the allocator's own first steps come before the baseline."""
        for size in _WARM_UP:
            self._torch.empty(size, dtype=self._torch.uint8, device=self.name).zero_()
        self._torch.cuda.synchronize(self._index)
        self._torch.cuda.empty_cache()
        self._torch.cuda.reset_peak_memory_stats(self._index)

    def _forecast(self, tensors: Sequence[Tensor], before: State) -> Forecast:
        if before.reserved:
            return unpredictable(
                f"this process already holds {before.allocated:,} B in other tensors "
                f"({before.reserved:,} B reserved), so where new ones go is not predicted"
            )
        return forecast(
            [tensor.bytes for tensor in tensors],
            environment=os.environ,
            build=self._build,
            backend=str(self._torch.cuda.get_allocator_backend()),
            total_bytes=before.total,
            other_bytes=before.total - before.free,
        )

    def _nvml(self) -> dict[str, int] | None:
        if getattr(self._torch.version, "hip", None):
            return None
        uuid = getattr(self._torch.cuda.get_device_properties(self._index), "uuid", None)
        # A part of a device (MIG) has a name of its own kind.
        return (read_nvml(f"GPU-{uuid}") or read_nvml(f"MIG-{uuid}")) if uuid else None


def _is_out_of_memory(torch: Any, error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)


def _first_line(error: Exception) -> str:
    """The error in short: torch goes on about what else might help."""
    line = str(error).partition("\n")[0]
    return ". ".join(line.split(". ")[:2]).rstrip(".")


def _failed_at(failure: str | None, sizes: Sequence[int]) -> int | None:
    return None if failure is None else len(sizes)


def _notes(before: State, during: State, nvml: dict[str, int] | None) -> tuple[str, ...]:
    """Where the device's memory is, from the driver's and from NVML's point of view."""
    others = before.total - before.free - before.reserved
    used = during.total - during.free
    notes = [
        f"driver view (mem_get_info): {format_bytes(used)} of {format_bytes(during.total)} used:"
        f" {format_bytes(during.reserved)} reserved by torch, {format_bytes(others)} held before"
        " (the CUDA context, other processes)"
    ]
    if nvml is not None:
        gap = nvml["used_bytes"] - used
        notes.append(
            f"NVML (nvidia-smi): {format_bytes(nvml['used_bytes'])} of"
            f" {format_bytes(nvml['total_bytes'])} used by {nvml['processes']} processes,"
            f" {format_bytes(gap)} more than mem_get_info counts (kept by the driver)"
        )
    return tuple(notes)
