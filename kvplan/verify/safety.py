"""Look before allocating: a cache that would not leave a margin free is refused, not tried.

On a host that others use too, the margin is what they keep. On a CPU host running out would make
the kernel end processes, so there the refusal is final; on an accelerator it can be waived, and
running out is then a result.
"""

from __future__ import annotations

from kvplan.errors import UsageError
from kvplan.units import GIB, format_bytes
from kvplan.verify.devices.device import Device, Room

_MOST = GIB


def default_margin(room: Room) -> int:
    """A twentieth of the device, at most 1 GiB."""
    return min(room.total // 20, _MOST)


def require_room(
    device: Device, needed: int, *, margin: int | None = None, allow_oom: bool = False
) -> None:
    """Raise UsageError when `needed` bytes would leave less than `margin` bytes free.

    Args:
        device: where the cache would go.
        needed: bytes that the device would give away, for all ranks that share it.
        margin: bytes to leave; None: `default_margin`.
        allow_oom: go ahead where running out of memory is survived.
    """
    room = device.room()
    if allow_oom and device.survives_oom:
        return
    if room is None:
        raise UsageError(
            f"{device.name} does not say how much memory is free, so nothing is allocated on it",
            hint="--allow-oom goes ahead",
        )
    kept = default_margin(room) if margin is None else margin
    if needed <= room.free - kept:
        return
    left = room.free - kept
    advice = [f"--max-bytes {_whole_mib(left)}MiB"] if left >= 2**20 else []
    advice += ["--fraction F", "--margin BYTES"] + (["--allow-oom"] if device.survives_oom else [])
    raise UsageError(
        f"{device.name} has {format_bytes(room.free)} free ({room.origin}); the cache takes "
        f"{format_bytes(needed)}, and {format_bytes(kept)} are to stay free",
        hint="a smaller cache of the same layout, or another margin: " + ", ".join(advice),
    )


def _whole_mib(count: int) -> int:
    return count >> 20
