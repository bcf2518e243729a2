"""Stated memory held against the device it is said to be on.

The commonest mistake is to state what a device has, not what its weights leave: such a figure is
above the most that the budget could leave, and the answer says so.
"""

from __future__ import annotations

from kvplan.budget.vllm.ask import Asked, vllm_budget
from kvplan.engines import LOGICAL, find_engine
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.hardware.sets import Devices
from kvplan.load import LoadedModel
from kvplan.notice import Notice
from kvplan.units import format_bytes


def above_device(
    model: LoadedModel,
    request: Request,
    engine: str,
    devices: Devices | None,
    asked: Asked,
    available_bytes: int,
) -> Notice | None:
    """A warning where a device cannot leave as much; None where it can, or nothing is known."""
    if devices is None or engine == LOGICAL or not engine.startswith("vllm"):
        return None
    _, version = find_engine(engine)
    device = devices.smallest
    try:
        budget = vllm_budget(model.spec, request, version, device, asked)
    except UsageError:
        return None  # the answer stands without it
    most = budget.available.high
    if available_bytes <= most:
        return None
    weights = budget.line("weights")
    message = (
        f"{format_bytes(available_bytes)} is more than one {device.product} can leave for the cache"
        f" (at most {format_bytes(max(most, 0))} beside {format_bytes(weights.mid)} of weights):"
        " --available-memory is what the engine has left, not what the device has"
    )
    return Notice("available-above-device", message)
