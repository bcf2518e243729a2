"""NVML, what nvidia-smi shows, through its C library: no package is needed and none may be there.

`--gpu local` asks it which devices this machine has. Every failure (no library, no permission, a
virtual device without these figures) gives nothing: no answer depends on it alone.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.named_tuple import NamedTuple
from kvplan.units import MIB, format_bytes

_LIBRARY = "nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1"
SUCCESS = 0  # NVML_SUCCESS
_NAME_LENGTH = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE
_MOST = 64


class Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Seen(NamedTuple):
    """One device as the driver shows it; bytes are None where it has no memory of its own."""

    name: str
    total_bytes: int | None
    used_bytes: int | None
    capability: tuple[int, int] | None


def load() -> Any:
    """The library, or None."""
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


def read_devices() -> list[Seen]:
    """The NVIDIA devices of this machine, in the driver's order; [] without NVML."""
    library = load()
    if library is None:
        return []
    try:
        if library.nvmlInit_v2() != SUCCESS:
            return []
        try:
            return _read(library)
        finally:
            library.nvmlShutdown()
    except AttributeError:  # a library without one of the functions
        return []


def _read(library: Any) -> list[Seen]:
    count = ctypes.c_uint(0)
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != SUCCESS:
        return []
    found = []
    for index in range(min(count.value, _MOST)):
        device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_LENGTH)
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != SUCCESS:
            continue
        if library.nvmlDeviceGetName(device, name, _NAME_LENGTH) != SUCCESS:
            continue
        memory, major, minor = Memory(), ctypes.c_int(0), ctypes.c_int(0)
        known = library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == SUCCESS
        pair = (ctypes.byref(major), ctypes.byref(minor))
        capable = library.nvmlDeviceGetCudaComputeCapability(device, *pair) == SUCCESS
        found.append(
            Seen(
                name.value.decode("utf-8", "replace"),
                int(memory.total) if known else None,
                int(memory.used) if known else None,
                (major.value, minor.value) if capable else None,
            )
        )
    return found


def local_devices(read: Any = read_devices) -> tuple[list[Device], list[str]]:
    """The devices of this machine, and what to tell about each.

    Raises:
        UsageError: the driver names none.
    """
    from kvplan.hardware.names import find_device

    seen: list[Seen] = read()
    if not seen:
        raise UsageError(
            "--gpu local: no NVIDIA driver answers on this machine",
            hint="name the device, such as --gpu h100, or its memory: --gpu-memory 24GiB",
        )
    devices, notices = [], []
    for one in seen:
        try:
            device = find_device(one.name).device
        except UsageError:
            device = _unlisted(one)
        if one.total_bytes is not None and device.driver_mib != one.total_bytes // MIB:
            device = device._replace(driver_mib=one.total_bytes // MIB, torch_gib=None)
        devices.append(device)
        if one.used_bytes and one.used_bytes > 1024 * MIB:
            notices.append(f"{one.name}: {format_bytes(one.used_bytes)} are in use now")
    return devices, notices


def _unlisted(seen: Seen) -> Device:
    from kvplan.hardware.device import plain_device

    return plain_device(0, "this machine's driver")._replace(
        name=seen.name.lower().replace(" ", "-"), product=seen.name, vendor="NVIDIA",
        torch_gib=None, capability=seen.capability, driver_name=seen.name,
        source="this machine's driver",
    )  # fmt: skip
