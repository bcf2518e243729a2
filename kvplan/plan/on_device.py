"""A request on its device: which kernels run there, the defaults by its memory, ranks for devices.

vLLM chooses kernels by compute capability and its default steps by memory. A device of the
catalogue is named to it; of any other (a slice, `--gpu-memory 24GiB`, what the local driver names)
a device with the same kernels stands in, and the default steps are those of its own memory.
"""

from __future__ import annotations

from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.gpus import Gpu, batch_defaults
from kvplan.engines.vllm.facts.versions import Rules
from kvplan.errors import UsageError
from kvplan.estimate import Estimate
from kvplan.hardware.device import Device
from kvplan.hardware.names import is_listed, listed_with
from kvplan.hardware.sets import Devices
from kvplan.notice import Notice
from kvplan.units import GIB

_USUAL = (8, 6)  # of a device of which only the memory is known


def on_device(
    request: Request, devices: Devices, rules: Rules, total: Estimate | None
) -> tuple[Request, list[Notice]]:
    """The request with the device's kernels and steps, and what to tell about the choice.

    Raises:
        UsageError: more ranks than devices.
    """
    notices = [Notice("ambiguous-device", text) for text in devices.notices]
    device = devices.smallest
    options = {key: value for key, value in request.options.items() if key != "gpu"}
    if is_listed(device.name) and device.capability is not None:
        options["gpu"] = device.name
    else:
        options = _unlisted(device, options, rules, total)
        if "gpu" not in options:
            message = (
                f"which kernels run on {device.product} is not known; block sizes are an H100's"
            )
            notices.append(Notice("kernels-not-known", message))
    idle = _idle(request, devices)
    return request.replaced(options=options), [*notices, *([idle] if idle else [])]


def _unlisted(
    device: Device, options: dict[str, str], rules: Rules, total: Estimate | None
) -> dict[str, str]:
    if total is not None:
        capability = device.capability or _USUAL
        seen = Gpu(device.name, capability, total.mid / GIB, device.driver_name)
        tokens, sequences = batch_defaults(seen, rules.batch_class)
        options.setdefault("max_num_batched_tokens", str(tokens))
        options.setdefault("max_num_seqs", str(sequences))
    stands_in = device.slice_of if is_listed(device.slice_of) else None
    stands_in = stands_in or listed_with(device.capability)
    return options if stands_in is None else {**options, "gpu": stands_in}


def _idle(request: Request, devices: Devices) -> Notice | None:
    """A word on devices that no rank uses.

    Raises:
        UsageError: more ranks than devices.
    """
    if not devices.given:
        return None
    ranks = request.tp * request.pp * request.dp
    if ranks > devices.number:
        raise UsageError(
            f"{ranks} ranks (tp {request.tp} x pp {request.pp} x dp {request.dp})"
            f" on {devices.number} devices",
            hint="give as many devices as ranks",
        )
    if ranks == devices.number:
        return None
    message = (
        f"{ranks} of {devices.number} devices are used, {devices.number - ranks} stay idle;"
        " --tp and --pp divide a model among more"
    )
    return Notice("idle-devices", message)
