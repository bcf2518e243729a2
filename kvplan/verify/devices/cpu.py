"""A CPU host: honest resident memory.

Each tensor lies in a private anonymous mapping of its own and every page of it is written, so what
it takes is its bytes in whole pages, and the kernel says so for these mappings alone. Allocating
through torch instead would hide small tensors in the heap's free space.

Transparent huge pages are declined for the mappings: they could hold pages beyond a mapping's end,
and a mapping with a flag of its own is not joined with a neighbour that belongs to someone else.
"""

from __future__ import annotations

import contextlib
import mmap
import platform
from collections.abc import Sequence
from typing import Any

from kvplan.arithmetic import ceil_div, round_up
from kvplan.checks import Check, compare, undecided
from kvplan.engines.layout import Tensor
from kvplan.verify.devices.device import Advance, Measurement, Room
from kvplan.verify.host_memory import host_room
from kvplan.verify.resident import Peak, held_in, process_anonymous
from kvplan.verify.tensors import (
    check_element_types,
    element_type,
    held_bytes,
    out_of_memory_check,
    real_bytes,
    tensor_bytes_check,
)

PAGE = mmap.PAGESIZE
_PAGE_TABLE_ENTRY = 8  # bytes of page table per page, outside of resident memory
_CHUNK = 64 << 20  # bytes touched between two looks at interrupts
_OWN_OBJECTS = 2 << 20  # what the interpreter's own objects may add or give back meanwhile


class CpuDevice:
    """This host's memory."""

    name = "cpu"
    survives_oom = False  # Linux would end processes instead

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def facts(self) -> dict[str, Any]:
        """Kind, system, torch, page size and memory."""
        room = self.room()
        return {
            "type": "cpu",
            "name": platform.processor() or platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "torch": str(self._torch.__version__),
            "page_bytes": PAGE,
            "total_bytes": room.total if room else None,
            "free_bytes": room.free if room else None,
        }

    def room(self) -> Room | None:
        """Memory of the host, or of the container if that is less."""
        return host_room()

    def cost(self, tensors: Sequence[Tensor]) -> int:
        """Whole pages, and the page tables over them."""
        pages = sum(ceil_div(tensor.bytes, PAGE) for tensor in tensors)
        return pages * (PAGE + _PAGE_TABLE_ENTRY)

    def measure(self, tensors: Sequence[Tensor], advance: Advance) -> Measurement:
        """Map, write every page, ask the kernel, unmap."""
        check_element_types(self._torch, tensors)
        self._warm_up()
        before = process_anonymous()
        held: list[_Mapped] = []
        failure = None
        resident = grown = highest = None
        sizes: list[int] = []
        peak = Peak()
        try:
            for tensor in tensors:
                held.append(_Mapped(self._torch, tensor))
                held[-1].touch(advance)
            highest = peak.growth()
            resident = held_in([mapped.addresses for mapped in held if mapped.size])
            grown = _growth(before)
        except (MemoryError, OSError) as error:
            failure = str(error)
        finally:
            sizes = [mapped.held for mapped in held]
            while held:
                held.pop().close()
        checks = [tensor_bytes_check(tensors, sizes)]
        if failure is not None:
            checks.append(out_of_memory_check(len(sizes), len(tensors), failure))
        else:
            checks += _resident_checks(tensors, resident, grown)
            checks.append(_peak(tensors, highest))
        checks.append(_left(_growth(before)))
        return Measurement(tuple(checks))

    def _warm_up(self) -> None:
        """First times load code, start threads and grow the heap, which must not count."""
        size = 16 << 20
        mapped = _Mapped(self._torch, Tensor("warm-up", (size,), "uint8", size))
        mapped.touch(lambda _: None)
        held_in([mapped.addresses])
        mapped.close()


class _Mapped:
    """One tensor in a mapping of its own."""

    def __init__(self, torch: Any, tensor: Tensor) -> None:
        self._bytes = self._map = None
        self._tensor = torch.empty(0)
        size = real_bytes(torch, tensor)
        if size:
            self._map = _private_mapping(size)
            self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)[:size]
            self._tensor = self._bytes.view(element_type(torch, tensor)).view(tensor.shape)

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return int(self._tensor.nbytes)

    @property
    def held(self) -> int:
        """Bytes that the tensor holds: those of its whole mapping, which must be its own."""
        return held_bytes(self._tensor) if self._map is not None else 0

    @property
    def addresses(self) -> tuple[int, int]:
        """First address, and the one after the last page."""
        start = int(self._tensor.data_ptr())
        return start, start + round_up(self.size, PAGE)

    def touch(self, advance: Advance) -> None:
        """Write to every page; a mapping begins on a page."""
        if self._bytes is None:
            return
        for start in range(0, self.size, _CHUNK):
            chunk = self._bytes[start : start + _CHUNK]
            chunk[::PAGE] = 1
            advance(len(chunk))

    def close(self) -> None:
        """Give the memory back; the tensors over it must go first."""
        self._bytes = self._tensor = None
        if self._map is not None:
            self._map.close()


def _private_mapping(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages knows no such advice
            found.madvise(mmap.MADV_NOHUGEPAGE)
    return found


def _growth(before: int | None) -> int | None:
    now = process_anonymous()
    return None if before is None or now is None else now - before


def _resident_checks(
    tensors: Sequence[Tensor], resident: int | None, grown: int | None
) -> list[Check]:
    pages = sum(ceil_div(tensor.bytes, PAGE) for tensor in tensors)
    if resident is None:
        return [
            undecided(
                "resident_bytes",
                f"{platform.system()} does not report resident memory of single mappings to kvplan",
                predicted=pages * PAGE,
            )
        ]
    own = compare(
        "resident_bytes",
        pages * PAGE,
        resident,
        f"{pages:,} pages of {PAGE:,} B, all written; counted by the kernel for the tensors' "
        "mappings alone (/proc/self/smaps)",
    )
    whole = compare(
        "process_bytes",
        pages * PAGE,
        grown,
        "growth of the whole process (/proc/self/smaps_rollup): nothing was copied elsewhere; "
        "the tolerance is for the interpreter's own objects",
        tolerance=_OWN_OBJECTS,
    )
    return [own, whole]


def _peak(tensors: Sequence[Tensor], highest: int | None) -> Check:
    pages = sum(ceil_div(tensor.bytes, PAGE) for tensor in tensors)
    why = "highest growth of the whole process on the way (VmHWM): nothing temporary was needed"
    if highest is None:
        return undecided("peak_bytes", f"{why}: not reported here", predicted=pages * PAGE)
    over = max(highest - pages * PAGE, 0)  # less is what the process gave back of its own
    check = compare("peak_bytes", pages * PAGE, pages * PAGE + over, why, tolerance=_OWN_OBJECTS)
    return check


def _left(growth: int | None) -> Check:
    why = "growth of the whole process after everything was freed"
    if growth is None:
        return undecided("left_after_free", f"{why}: not reported on {platform.system()}")
    return compare("left_after_free", 0, max(growth, 0), why, tolerance=_OWN_OBJECTS)
