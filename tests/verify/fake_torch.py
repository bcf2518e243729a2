"""A torch without a device: the calls that device rooms make, answered by simple books.

CUDA's figures come from the project's allocator model, which is compared with real allocators
elsewhere; what is tested with it here is everything around it: order, baselines, cleanup, verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import SimpleNamespace
from typing import Any

from kvplan.allocator import AllocatorConfig, CachingAllocator, OutOfDeviceMemory

MIB = 1 << 20


class DType:
    """An element type."""

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize


class OutOfMemoryError(RuntimeError):
    """As torch.OutOfMemoryError."""


class FakeTensor:
    """Bytes on a device, given back when the last reference goes."""

    def __init__(self, nbytes: int, free: Callable[[], None], touched: list[int]) -> None:
        self.nbytes = nbytes
        self._free = free
        self._touched = touched

    def untyped_storage(self) -> Any:
        return SimpleNamespace(nbytes=lambda: self.nbytes)

    def view(self, *_: Any) -> FakeTensor:
        return self

    def zero_(self) -> FakeTensor:
        self._touched.append(self.nbytes)
        return self

    def __del__(self) -> None:
        self._free()


class FakeCuda:
    """`torch.cuda` over the allocator model.

    Attributes:
        skew: added to each figure of memory_stats, to make a disagreement.
        on_synchronize: called at synchronize, to let something happen meanwhile.
    """

    def __init__(self, total: int, other: int = 0, backend: str = "native") -> None:
        self.allocator = CachingAllocator(AllocatorConfig(), total_bytes=total, other_bytes=other)
        self.backend = backend
        self.skew = 0
        self.on_synchronize: Callable[[], None] = lambda: None
        self.touched: list[int] = []

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None: ...

    def get_allocator_backend(self) -> str:
        return self.backend

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(name="Fake", major=9, minor=0)

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return self.allocator.device.free_bytes, self.allocator.device.total_bytes

    def memory_stats(self, index: int) -> dict[str, int]:
        stats = self.allocator.stats
        found = {}
        for name in ("requested", "allocated", "reserved"):
            gauge = getattr(stats, name)
            skew = self.skew if gauge.current else 0
            found[f"{name}_bytes.all.current"] = gauge.current + skew
            found[f"{name}_bytes.all.peak"] = gauge.peak
        return found

    def reset_peak_memory_stats(self, index: int) -> None:
        self.allocator.stats.reset_peaks()

    def empty_cache(self) -> None:
        self.allocator.empty_cache()

    def synchronize(self, index: int) -> None:
        self.on_synchronize()

    def make(self, nbytes: int) -> FakeTensor:
        try:
            handle = self.allocator.malloc(nbytes)
        except OutOfDeviceMemory:
            raise OutOfMemoryError(
                "CUDA out of memory. Tried to allocate. GPU 0 has more to say.\nAnd a second line"
            ) from None
        return FakeTensor(nbytes, lambda: self.allocator.free(handle), self.touched)


class FakeAccelerator:
    """`torch.xpu` and `torch.mps`: one counter, rounded up to whole MiB."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self.touched: list[int] = []

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None: ...

    def synchronize(self) -> None: ...

    def empty_cache(self) -> None: ...

    def memory_allocated(self, index: int) -> int:
        return self.held

    def memory_reserved(self, index: int) -> int:
        return self.held

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return self.total - self.held, self.total

    def current_allocated_memory(self) -> int:
        return self.held

    def driver_allocated_memory(self) -> int:
        return self.held

    def recommended_max_memory(self) -> int:
        return self.total

    def make(self, nbytes: int) -> FakeTensor:
        taken = -(-nbytes // MIB) * MIB
        if self.held + taken > self.total:
            raise RuntimeError("XPU out of memory")
        self.held += taken

        def free() -> None:
            self.held -= taken

        return FakeTensor(nbytes, free, self.touched)


def fake_torch(kind: str, module: Any, version: str = "2.14.1+cu130") -> Any:
    """The module torch with one kind of device."""

    def empty(shape: Any, *, dtype: DType, device: str) -> FakeTensor:
        assert device.partition(":")[0] == kind
        count = shape if isinstance(shape, int) else prod(shape)
        made: FakeTensor = module.make(count * dtype.itemsize)
        return made

    torch = SimpleNamespace(
        __version__=version,
        version=SimpleNamespace(cuda="13.0", hip=None),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: kind == "mps")),
        dtype=DType,
        uint8=DType(1),
        bfloat16=DType(2),
        float32=DType(4),
        OutOfMemoryError=OutOfMemoryError,
        empty=empty,
    )
    setattr(torch, kind, module)
    return torch
