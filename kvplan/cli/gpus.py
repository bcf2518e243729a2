"""`kvplan gpus`: the devices kvplan knows."""

from __future__ import annotations

from kvplan.cli.options import REPORT, Argument, Command, Values


def run(values: Values) -> int:
    """List the devices, or show those that a name means."""
    from kvplan.plan.devices import list_devices
    from kvplan.report.write import emit

    name = values["name"]
    if name is None:
        return emit("gpus", list_devices(), values)
    return emit("gpu", list_devices(name), values)


COMMAND = Command(
    "gpus",
    "The devices kvplan knows, or one of them with its source.",
    run,
    Argument("name", "a device, several, or a cloud machine: h100:4, p5.48xlarge", "NAME", False),
    REPORT,
    example="kvplan gpus h100",
)
