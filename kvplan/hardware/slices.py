"""MIG slices: `mig-3g.40gb`, `1g.10gb`, `NVIDIA-H100-80GB-HBM3-MIG-2g.20gb`.

The size in a profile's name is rounded up: 1g.5gb of an A100 has 4.75 GiB, 3g.40gb 39.25 to 39.5, a
16 GiB slice was sold as 1g.18gb. Bandwidth follows the share of memory, compute the number before
`g`; both are left blank, because the parent decides.
Source: NVIDIA MIG user guide (profiles, sizes); totals in public logs.
"""

from __future__ import annotations

import re

from kvplan.hardware.device import Device
from kvplan.named_tuple import NamedTuple

PROFILE = re.compile(
    r"(?:^|[-_ .:/])(?:mig[-_ .])?(?P<parts>[1-7])g[._-](?P<gb>\d{1,3})gb(?:[+.]me)?(?=$|[-_ .:])"
)
# Share of the gigabytes in the name that the slice has, in GiB: least, usual, most.
_SHARES = (0.88, 0.965, 0.995)
# Gigabytes of one eighth of the memory, by kind of device.
_EIGHTHS = {5: "a100-40gb", 6: "a30", 10: "", 12: "h100-nvl", 18: "h200", 23: "b200", 34: "b300"}


class Profile(NamedTuple):
    """A MIG profile as written: compute slices and gigabytes."""

    parts: int
    gigabytes: int

    @property
    def name(self) -> str:
        """`3g.40gb`."""
        return f"{self.parts}g.{self.gigabytes}gb"


def profile_in(text: str) -> tuple[Profile, str] | None:
    """The profile in a name, and the name without it; None where there is none."""
    found = PROFILE.search(text)
    if found is None:
        return None
    rest = f"{text[: found.start()]} {text[found.end() :]}"
    rest = re.sub(r"(?:^|[-_ .:/])mig(?=$|[-_ .:/])", " ", rest)
    return Profile(int(found["parts"]), int(found["gb"])), rest.strip(" -_.:/")


def slice_of(parent: Device | None, profile: Profile) -> Device:
    """The slice as a device of its own; without a parent its kernels are not known."""
    low, mid, high = (share * profile.gigabytes for share in _SHARES)
    name = profile.name if parent is None else f"{parent.name}-mig-{profile.name}"
    product = f"MIG slice {profile.name}" + (f" of {parent.product}" if parent else "")
    return Device(
        name=name, product=product, vendor="NVIDIA",
        architecture=parent.architecture if parent else "",
        memory_gb=float(profile.gigabytes), driver_mib=None, torch_gib=(low, mid, high),
        bandwidth_gbs=None, fp16_tflops=None, fp8_tflops=None,
        capability=parent.capability if parent else None, fp8=parent.fp8 if parent else "",
        nvlink_gbs=None, unified=False, form="", driver_name="", bases=(), whole=(),
        source="NVIDIA MIG user guide: the size in a profile's name is rounded up",
        slice_of=parent.name if parent else "unknown",
    )  # fmt: skip
