"""The driver under the allocator: so many bytes, given out in 2 MiB pages, at rising addresses.

Only two things of the driver show in the figures: whether an allocation fits, and which of two
equally large free blocks has the lower address. Addresses here always rise and are never reused;
a real driver may reuse them, which can only decide between blocks of exactly equal size.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.allocator.rounding import MIB
from kvplan.arithmetic import round_up

PAGE = 2 * MIB  # granularity of cudaMalloc for large sizes, and of cuMemCreate


@dataclass(slots=True)
class DeviceMemory:
    """Memory of one device.

    Args:
        total_bytes: what `torch.cuda.mem_get_info()` calls total.
        used_bytes: taken so far, by others (CUDA context, other processes) and by us.
    """

    total_bytes: int
    used_bytes: int = 0
    next_address: int = 0

    @property
    def free_bytes(self) -> int:
        """Bytes still to give; 0 when others hold more than the device has."""
        return max(self.total_bytes - self.used_bytes, 0)

    def take(self, nbytes: int) -> bool:
        """Take `nbytes` of memory in whole pages, if there are so many."""
        pages = round_up(nbytes, PAGE)
        if pages > self.free_bytes:
            return False
        self.used_bytes += pages
        return True

    def give_back(self, nbytes: int) -> None:
        """Return what `take(nbytes)` took."""
        self.used_bytes -= round_up(nbytes, PAGE)

    def place(self, nbytes: int) -> int:
        """An address range of `nbytes`, above all earlier ones; returns its first address."""
        address = self.next_address
        self.next_address += round_up(nbytes, PAGE)
        return address
