"""One kind of device: facts with their source, and the memory that software finds on it.

The size in a product's name is not the memory that a program gets. Three figures differ: the size
it is sold by (decimal or binary, with or without what error correction takes), the total that the
driver shows, and the total that torch reports, 0.3 to 0.9 GiB less. Engines take fractions of the
last, so an "80 GB" H100 has 79.19 GiB, never 80.
"""

from __future__ import annotations

from kvplan.estimate import Estimate
from kvplan.named_tuple import NamedTuple
from kvplan.units import GIB, MIB

# What the driver keeps of its own total: the least and the most seen on 12 kinds of NVIDIA device.
_DRIVER_KEEPS = (0.25, 0.50, 0.95)
# Share of the size in the name that torch reports where nothing better is known: 16 GB (T4, with
# error correction) is 14.56 GiB, 24 GB (RTX 3090) is 23.68.
_OF_NAME = (0.91, 0.965, 0.995)


class Device(NamedTuple):
    """A kind of device; None where no source says.

    Attributes:
        name: short and unique: `h100`, `a100-80gb`, `rtx-4090`.
        memory_gb: the size it is sold by.
        driver_mib: total that nvidia-smi shows.
        torch_gib: low, middle and high of the totals that torch reported.
        bandwidth_gbs: memory bandwidth, 10^9 bytes a second.
        fp16_tflops, fp8_tflops: dense rates.
        capability: compute capability of NVIDIA devices.
        unified: the memory is the machine's, shared with whatever else runs.
        form: sxm, pcie or nvl where the kinds differ.
        bases: names it answers to, blanks and dashes left out.
        whole: names that are compared as they are written.
        slice_of: a MIG slice's parent, by name.
    """

    name: str
    product: str
    vendor: str
    architecture: str
    memory_gb: float | None
    driver_mib: int | None
    torch_gib: tuple[float, float, float] | None
    bandwidth_gbs: float | None
    fp16_tflops: float | None
    fp8_tflops: float | None
    capability: tuple[int, int] | None
    fp8: str
    nvlink_gbs: float | None
    unified: bool
    form: str
    driver_name: str
    bases: tuple[str, ...]
    whole: tuple[str, ...]
    source: str
    notes: str = ""
    slice_of: str = ""

    @property
    def measured(self) -> bool:
        """Its total was printed by a program that ran on it."""
        return self.torch_gib is not None

    def total(self) -> Estimate | None:
        """Bytes that a program finds on it, as torch reports them; None where nothing says."""
        if self.torch_gib is not None:
            low, mid, high = (round(gib * GIB) for gib in self.torch_gib)
            origin = "totals that programs printed on it"
            if self.slice_of or not self.vendor:
                origin = self.source
            return Estimate(low, mid, high, f"{self.product}: {origin}")
        if self.driver_mib is not None:
            most = self.driver_mib * MIB
            low, mid, high = (most - round(gib * GIB) for gib in reversed(_DRIVER_KEEPS))
            return Estimate(
                low, mid, high, f"{self.product}: the driver's {self.driver_mib:,} MiB less its own"
            )
        if self.memory_gb is not None:
            low, mid, high = (round(self.memory_gb * share * GIB) for share in _OF_NAME)
            return Estimate(
                low, mid, high, f"{self.product}: sold as {self.memory_gb:g} GB, nothing measured"
            )
        return None


def plain_device(total: int, origin: str) -> Device:
    """A device of which only the memory is known, as `--gpu-memory 24GiB` names it."""
    gib = total / GIB
    return Device(
        name="memory", product="device", vendor="", architecture="", memory_gb=None,
        driver_mib=None, torch_gib=(gib, gib, gib), bandwidth_gbs=None, fp16_tflops=None,
        fp8_tflops=None, capability=None, fp8="", nvlink_gbs=None, unified=False, form="",
        driver_name="", bases=(), whole=(), source=origin,
    )  # fmt: skip
