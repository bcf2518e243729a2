"""Devices that can hold a cache, each with what it can honestly report.

    cpu.py           resident memory, page by page
    cuda.py          torch's caching allocator and the driver (ROCm builds answer here too)
    accelerator.py   xpu and mps, as far as those report

`find_device("auto")` takes the first accelerator that torch sees, else the CPU.
"""

from __future__ import annotations

from typing import Any

from kvplan.errors import UsageError
from kvplan.verify.devices.device import Device

KINDS = ("auto", "cpu", "cuda", "xpu", "mps")


def find_device(torch: Any, text: str, local_rank: int | None = None) -> Device:
    """The device that `--device` names: `cpu`, `cuda`, `cuda:1`, `xpu`, `mps` or `auto`.

    Args:
        torch: the module.
        text: the name.
        local_rank: this process's place among those on its host; each takes a device of its own.

    Raises:
        UsageError: no such device, or torch does not see it.
    """
    kind, colon, number = text.strip().lower().partition(":")
    if kind not in KINDS or (colon and not (number.isascii() and number.isdigit())):
        raise UsageError(f"--device {text!r} is not a device", hint="one of " + ", ".join(KINDS))
    if kind == "auto":
        kind = next((name for name in ("cuda", "xpu", "mps") if _count(torch, name)), "cpu")
    if kind == "cpu":
        if colon:
            raise UsageError("there is one cpu device", hint="--device cpu")
        from kvplan.verify.devices.cpu import CpuDevice

        return CpuDevice(torch)
    index = int(number) if number else local_rank or 0
    _require(torch, kind, index, of_rank=local_rank is not None)
    if kind == "cuda":
        from kvplan.verify.devices.cuda import CudaDevice

        return CudaDevice(torch, index)
    from kvplan.verify.devices.accelerator import AcceleratorDevice

    return AcceleratorDevice(torch, kind, index)


def _count(torch: Any, kind: str) -> int:
    """How many devices of a kind torch sees."""
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    module = getattr(torch, kind, None)
    return int(module.device_count()) if module is not None and module.is_available() else 0


def _require(torch: Any, kind: str, index: int, *, of_rank: bool) -> None:
    count = _count(torch, kind)
    if not count:
        raise UsageError(
            f"torch {torch.__version__} sees no {kind} device",
            hint="--device cpu measures on this host's memory; a build of torch without "
            f"{kind} support sees none",
        )
    if index >= count:
        what = f"rank {index} of this host needs {kind}:{index}" if of_rank else f"{kind}:{index}"
        raise UsageError(
            f"{what}, but torch sees {count} {kind} device{'s' if count > 1 else ''}",
            hint="each rank takes a device of its own; --device cpu takes any number of ranks",
        )
