"""GPUs as vLLM tells them apart: compute capability, memory class and the driver's name.

The facts are the catalogue's (`kvplan.hardware`); here stands what vLLM makes of them. Memory is
what torch reports in GiB, which vLLM compares with 70 and 160 (vllm 0.33.0, engine/arg_utils.py
get_batch_defaults). Kernels are known for NVIDIA devices; of another the block sizes are not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.hardware.names import find_device
from kvplan.hardware.sets import find_devices
from kvplan.units import GIB

DEFAULT_GPU = "h100"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU: its short name, compute capability, memory in GiB and the driver's name."""

    name: str
    capability: tuple[int, int]
    memory_gib: float
    device_name: str

    @property
    def major(self) -> int:
        """Generation: 8 Ampere and Ada, 9 Hopper, 10 Blackwell, 12 Blackwell workstation."""
        return self.capability[0]


def find_gpu(text: str) -> Gpu:
    """The GPU that a name such as `h100`, `H100-80GB` or `nvidia_l40s` means.

    Kinds of one name have the same kernels. Where they differ in memory, the larger one's defaults
    count: it has more tokens in a step, so a cache that holds them holds those of the smaller too.

    Raises:
        UsageError: no known device answers to the name, or vLLM's kernels on it are not known.
    """
    found = find_devices(text)
    kinds = [find_device(name).device for name in found.others] or [found.smallest]
    return gpu_of(max(kinds, key=lambda device: device.memory_gb or 0), text)


def gpu_of(device: Device, text: str) -> Gpu:
    """What vLLM sees of a device.

    Raises:
        UsageError: its compute capability is not known.
    """
    total = device.total()
    if device.capability is None or total is None:
        raise UsageError(
            f"gpu {text!r} is not a kind that vllm's kernel choice is known for",
            hint="NVIDIA devices are; `kvplan gpus` lists them with their compute capability",
        )
    return Gpu(device.name, device.capability, total.mid / GIB, device.driver_name)


# Defaults of `vllm serve`: (max_num_batched_tokens, max_num_seqs).
_SMALL, _LARGE, _HUGE = (2048, 256), (8192, 1024), (16384, 1024)


def batch_defaults(gpu: Gpu, rule: str) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of `vllm serve` on this GPU under a release's rule.

    `v0`: 2,048 and 256 everywhere; `hopper`: by the device's name, 1,024 sequences everywhere;
    `large`: by 70 GiB; `no_a100`: A100s as if smaller; `huge`: a class of its own from 160 GiB.
    """
    if rule == "v0":
        return _SMALL
    name = gpu.device_name.lower()
    if rule == "hopper":
        return (_LARGE if "h100" in name or "h200" in name else _SMALL)[0], 1024
    if rule == "huge" and gpu.memory_gib >= 160:
        return _HUGE
    if gpu.memory_gib < 70 or (rule != "large" and "a100" in name):
        return _SMALL
    return _SMALL if rule == "huge" and gpu.capability == (12, 1) else _LARGE
