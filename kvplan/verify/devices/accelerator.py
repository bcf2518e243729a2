"""XPU (Intel) and MPS (Apple): the tensors to the byte, the allocator's figures as far as reported.

Neither allocator is modelled here, so what they charge is shown and only held to a lower bound:
less than the tensors' own bytes would be wrong. `torch.mps` reports no reserved memory apart from
what its driver holds, and no free memory; the recommended maximum stands in for the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.arithmetic import round_up
from kvplan.checks import Check, compare
from kvplan.engines.layout import Tensor
from kvplan.named_tuple import NamedTuple
from kvplan.verify.devices.device import Advance, Measurement, Room
from kvplan.verify.tensors import (
    check_element_types,
    held_bytes,
    make,
    out_of_memory_check,
    tensor_bytes_check,
)


class _Counters(NamedTuple):
    """Bytes at one moment."""

    allocated: int
    reserved: int


class AcceleratorDevice:
    """One device under torch's `xpu` or `mps` name."""

    survives_oom = True

    def __init__(self, torch: Any, kind: str, index: int) -> None:
        self._torch = torch
        self._kind = kind
        self._index = index
        self._module = getattr(torch, kind)
        self.name = f"{kind}:{index}"
        if kind != "mps":  # there is only one
            self._module.set_device(index)

    def facts(self) -> dict[str, Any]:
        """Kind, torch, and memory."""
        room = self.room()
        return {
            "type": self._kind,
            "index": self._index,
            "name": self.name,
            "torch": str(self._torch.__version__),
            "total_bytes": room.total if room else None,
            "free_bytes": room.free if room else None,
        }

    def room(self) -> Room | None:
        """Total and free memory, where torch gives both."""
        if self._kind == "mps":
            total = int(self._module.recommended_max_memory())
            return Room(total, total - self._counters().reserved, "recommended_max_memory")
        ask = getattr(self._module, "mem_get_info", None)
        if ask is None:  # before torch 2.8
            return None
        free, total = ask(self._index)
        return Room(int(total), int(free), "mem_get_info")

    def cost(self, tensors: Sequence[Tensor]) -> int:
        """The tensors' bytes in whole pages of 2 MiB, an estimate from above for large ones."""
        page = 2 << 20
        return sum(round_up(tensor.bytes, page) for tensor in tensors)

    def measure(self, tensors: Sequence[Tensor], advance: Advance) -> Measurement:
        """Allocate through torch, write every byte, read the counters, free."""
        torch = self._torch
        check_element_types(torch, tensors)
        self._module.empty_cache()
        before = self._counters()
        held: list[Any] = []
        failure: str | None = None
        try:
            for tensor in tensors:
                held.append(make(torch, tensor, self._kind_index()))
                advance(tensor.bytes)
            self._module.synchronize()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            failure = str(error).splitlines()[0]
        finally:
            during = self._counters()
            sizes = [held_bytes(tensor) for tensor in held]
            held.clear()
            self._module.empty_cache()
        after = self._counters()
        checks = [tensor_bytes_check(tensors, sizes)]
        if failure is not None:
            checks.append(out_of_memory_check(len(sizes), len(tensors), failure))
        checks += [
            self._at_least("memory_allocated", sum(sizes), during.allocated - before.allocated),
            self._at_least("memory_reserved", sum(sizes), during.reserved - before.reserved),
            compare(
                "left_after_free",
                0,
                after.allocated - before.allocated,
                "memory allocated once everything is freed",
            ),
        ]
        return Measurement(tuple(checks))

    def _kind_index(self) -> str:
        return "mps" if self._kind == "mps" else self.name

    def _counters(self) -> _Counters:
        if self._kind == "mps":
            return _Counters(
                int(self._module.current_allocated_memory()),
                int(self._module.driver_allocated_memory()),
            )
        return _Counters(
            int(self._module.memory_allocated(self._index)),
            int(self._module.memory_reserved(self._index)),
        )

    def _at_least(self, name: str, least: int, measured: int) -> Check:
        """Undecided, unless it is less than the tensors need."""
        return Check(
            name=name,
            predicted=least,
            measured=measured,
            difference=measured - least,
            tolerance=None,
            ok=False if measured < least else None,
            why=f"{self._kind}: at least the tensors' bytes; its allocator is not modelled, "
            "so the exact figure is not predicted",
        )
