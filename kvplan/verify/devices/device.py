"""What every device offers: its room, a price, and a measurement that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvplan.checks import Check
from kvplan.engines.layout import Tensor

#: Called with the bytes of each piece once it is allocated and touched.
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of a device: bytes in all, bytes free now, and who says so."""

    total: int
    free: int
    origin: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one allocation of a rank's tensors showed."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()


class Device(Protocol):
    """One device of one kind."""

    name: str  # as torch writes it: cpu, cuda:0
    survives_oom: bool  # whether running out of memory is an error here, not the end of processes

    def facts(self) -> dict[str, Any]:
        """What it is: plain values for a report."""

    def room(self) -> Room | None:
        """What is free now; None when the device does not say."""

    def cost(self, tensors: Sequence[Tensor]) -> int:
        """Bytes that the device gives away for these tensors, rounding included."""

    def measure(self, tensors: Sequence[Tensor], advance: Advance) -> Measurement:
        """Allocate the tensors in order, touch them, measure, free them.

        Whatever happens, interrupts included, nothing stays allocated.
        """
