"""The devices that one replica runs on: `h100`, `h100:4`, `h100x8`, `3090:2,4090:1`, `p5.48xlarge`.

Engines give every rank the same share of the model, so the device with the least memory decides for
all. A cloud machine stands for all its devices.
"""

from __future__ import annotations

import math
import re

from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.hardware.names import Match, find_device
from kvplan.hardware.tables import instances
from kvplan.named_tuple import NamedTuple

MOST_DEVICES = 4096

_BEFORE = re.compile(r"(?P<count>\d+)\s*[x*]\s*(?P<name>[^\dx*].*|\d{4}.*)")
_BEHIND = re.compile(r"(?P<name>.*?[^\sx*:])\s*(?:[:*]|\s?x)\s*(?P<count>-?\d+)")
_GRID = re.compile(r"(?P<name>.*tpu.*?)-(?P<grid>\d+(?:x\d+)+)")  # tpu-v5e-2x4
_ORACLE = re.compile(r"(?:bm|vm)\.gpu\.?(?P<name>[a-z0-9-]+)\.(?P<count>\d+)")


class Devices(NamedTuple):
    """Devices in the order they were named, each kind with its count.

    Attributes:
        kinds: device and how many of it.
        given: a count was written, or a machine that has one.
        notices: what to tell the reader about the choice.
        others: kinds that an ambiguous name could have meant too.
    """

    kinds: tuple[tuple[Device, int], ...]
    given: bool
    notices: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Devices in all."""
        return sum(count for _, count in self.kinds)

    @property
    def smallest(self) -> Device:
        """The device with the least memory; one without known memory first."""

        def least(device: Device) -> int:
            total = device.total()
            return total.low if total is not None else -1

        return min((device for device, _ in self.kinds), key=least)

    @property
    def text(self) -> str:
        """`4 x H100 SXM5 80 GB`, `2 x GeForce RTX 3090 + 1 x GeForce RTX 4090`."""
        counts: dict[str, int] = {}
        for device, count in self.kinds:
            counts[device.product] = counts.get(device.product, 0) + count
        if self.number == 1:
            return next(iter(counts))
        return " + ".join(f"{count} x {product}" for product, count in counts.items())


def find_devices(text: str) -> Devices:
    """The devices that `--gpu` names.

    Raises:
        UsageError: a name that no device answers to, or no usable count.
    """
    if text.strip().lower() == "local":
        from kvplan.hardware.nvml import local_devices

        devices, told = local_devices()
        return Devices(tuple((device, 1) for device in devices), True, tuple(told))
    kinds, notices, given = [], [], False
    others: list[str] = []
    for part in text.split(","):
        if not part.strip():
            raise UsageError(f"gpu {text!r} has an empty entry")
        match, count, counted = _one(part.strip())
        kinds.append((match.device, count))
        given = given or counted
        if match.notice:
            notices.append(f"gpu {part.strip()!r} is {match.notice}")
            others += match.others
    return Devices(tuple(kinds), given or len(kinds) > 1, tuple(notices), tuple(others))


def _one(text: str) -> tuple[Match, int, bool]:
    """One entry: the device, how many, and whether a count was written."""
    machine = _machine(text)
    if machine is not None:
        device, count = machine
        return Match(find_device(device).device), count, True
    for pattern in (_BEFORE, _BEHIND):
        found = pattern.fullmatch(text.lower())
        if found is None:
            continue
        try:
            match = find_device(found["name"])
        except UsageError:
            continue
        return match, _counted(found["count"], text), True
    grid = _GRID.fullmatch(text.lower())
    if grid is not None:
        count = math.prod(int(side[:4]) for side in grid["grid"].split("x"))
        return find_device(grid["name"]), _counted(str(count), text), True
    return find_device(text), 1, False


def _machine(text: str) -> tuple[str, int] | None:
    """Device and count of a cloud machine, as each cloud or manifest writes its name."""
    name = text.lower().removeprefix("ml.")
    known = instances()
    found = known.get(name) or known.get(f"standard_{name}")
    if found is not None:
        return found.device, found.number
    oracle = _ORACLE.fullmatch(name)
    if oracle is not None:
        short = {"4": "a100-40gb", "3": "v100-16gb", "a100-v2": "a100-80gb"}
        return short.get(oracle["name"], oracle["name"]), int(oracle["count"])
    return None


def _counted(digits: str, text: str) -> int:
    count = int(digits[:9])
    if not 1 <= count <= MOST_DEVICES:
        raise UsageError(f"gpu {text!r}: {count:,} devices is outside 1 .. {MOST_DEVICES:,}")
    return count
