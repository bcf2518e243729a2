"""NVML, what nvidia-smi shows, through its C library: no package is needed and none may be there.

Every failure (no library, no permission, a virtual device without these figures) gives None: NVML
explains a gap, no check depends on it.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

_LIBRARY = "nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1"
_SUCCESS, _MORE = 0, 7  # NVML_SUCCESS, NVML_ERROR_INSUFFICIENT_SIZE: the count is set all the same


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def read_nvml(uuid: str) -> dict[str, int] | None:
    """`{"total_bytes", "used_bytes", "processes"}` of the device with this uuid, or None."""
    library = _load()
    if library is None:
        return None
    try:
        if library.nvmlInit_v2() != _SUCCESS:
            return None
        try:
            return _read(library, uuid)
        finally:
            library.nvmlShutdown()
    except AttributeError:  # a library without one of the functions
        return None


def _load() -> Any:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


def _read(library: Any, uuid: str) -> dict[str, int] | None:
    device, memory, count = ctypes.c_void_p(), _Memory(), ctypes.c_uint(0)
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != _SUCCESS:
        return None
    if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) != _SUCCESS:
        return None
    listed = library.nvmlDeviceGetComputeRunningProcesses_v3
    if listed(device, ctypes.byref(count), None) not in (_SUCCESS, _MORE):
        return None
    return {
        "total_bytes": int(memory.total),
        "used_bytes": int(memory.used),
        "processes": int(count.value),
    }
