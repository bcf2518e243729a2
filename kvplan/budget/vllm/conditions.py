"""What vLLM's budget depends on: release, device, ranks, steps, and what is switched off."""

from __future__ import annotations

from kvplan.hardware.device import Device
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec


class Conditions(NamedTuple):
    """One start of vLLM.

    Attributes:
        version: release as numbers, (0, 19).
        spec: the model.
        device: the device of the smallest rank.
        tp, pp: ranks.
        sequences: max_num_seqs.
        tokens: max_num_batched_tokens.
        eager: no CUDA graphs.
        images: the model's towers are profiled.
        pooling: no sampler.
        flashinfer: the sampler needs no sort; None where that is not known.
        element_bytes: bytes of an activation's element.
    """

    version: tuple[int, int]
    spec: ModelSpec
    device: Device
    tp: int
    pp: int
    sequences: int
    tokens: int
    eager: bool
    images: bool
    pooling: bool = False
    flashinfer: bool | None = None
    element_bytes: int = 2

    @property
    def multimodal(self) -> bool:
        """The model sees or hears, so that towers are loaded and profiled."""
        architecture = self.spec.architecture or ""
        return (
            "ForConditionalGeneration" in architecture
            or "VL" in architecture
            or "ocr" in self.spec.name
            or self.spec.image_attention is not None
        )

    @property
    def nvlink(self) -> bool:
        """The device's ranks talk over NVLink."""
        return bool(self.device.nvlink_gbs)

    @property
    def uncertain(self) -> bool:
        """A device on which other programs share the memory, or whose driver behaves otherwise."""
        return self.device.unified or self.device.vendor not in ("NVIDIA", "")
