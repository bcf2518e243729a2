"""The devices and machines of the catalogue: what `kvplan gpus` lists."""

from __future__ import annotations

from kvplan.hardware.device import Device
from kvplan.hardware.names import all_devices
from kvplan.hardware.sets import find_devices
from kvplan.hardware.tables import instances
from kvplan.named_tuple import NamedTuple


class Listed(NamedTuple):
    """A device, how many were named, the machines that hold it, and a word on the choice."""

    device: Device
    number: int
    machines: tuple[str, ...]
    notices: tuple[str, ...] = ()


def list_devices(name: str | None = None) -> list[Listed]:
    """All devices, or those that a name means.

    Raises:
        UsageError: no device answers to the name.
    """
    machines: dict[str, list[str]] = {}
    for instance in instances().values():
        count = f" ({instance.number})" if instance.number > 1 else ""
        machines.setdefault(instance.device, []).append(f"{instance.name}{count}")
    if name is None:
        return [Listed(device, 1, tuple(machines.get(device.name, ()))) for device in all_devices()]
    found = find_devices(name)
    return [
        Listed(device, count, tuple(machines.get(device.name, ())), found.notices)
        for device, count in found.kinds
    ]
