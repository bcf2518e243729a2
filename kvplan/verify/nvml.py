"""NVML, what nvidia-smi shows, through its C library: no package is needed and none may be there.

Every failure (no library, no permission, a virtual device without these figures) gives None: NVML
explains a gap, no check depends on it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kvplan.hardware.nvml import SUCCESS, Memory, load

_MORE = 7  # NVML_ERROR_INSUFFICIENT_SIZE: the count is set all the same


def read_nvml(uuid: str) -> dict[str, int] | None:
    """`{"total_bytes", "used_bytes", "processes"}` of the device with this uuid, or None."""
    library = load()
    if library is None:
        return None
    try:
        if library.nvmlInit_v2() != SUCCESS:
            return None
        try:
            return _read(library, uuid)
        finally:
            library.nvmlShutdown()
    except AttributeError:  # a library without one of the functions
        return None


def _read(library: Any, uuid: str) -> dict[str, int] | None:
    device, memory, count = ctypes.c_void_p(), Memory(), ctypes.c_uint(0)
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != SUCCESS:
        return None
    if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) != SUCCESS:
        return None
    listed = library.nvmlDeviceGetComputeRunningProcesses_v3
    if listed(device, ctypes.byref(count), None) not in (SUCCESS, _MORE):
        return None
    return {
        "total_bytes": int(memory.total),
        "used_bytes": int(memory.used),
        "processes": int(count.value),
    }
