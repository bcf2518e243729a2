"""GPUs as vLLM tells them apart: compute capability, memory class and name.

Only what decides kernels and defaults is kept. Memory is the marketing size in GiB; vLLM compares
it with 70 and 160 GiB (vllm 0.33.0, engine/arg_utils.py get_batch_defaults).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.errors import UsageError


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU: its short name, compute capability, memory in GiB and the driver's name."""

    name: str
    capability: tuple[int, int]
    memory_gib: int
    device_name: str

    @property
    def major(self) -> int:
        """Generation: 8 Ampere and Ada, 9 Hopper, 10 Blackwell, 12 Blackwell workstation."""
        return self.capability[0]


_TABLE: tuple[Gpu, ...] = (
    Gpu("v100", (7, 0), 32, "Tesla V100-SXM2-32GB"),
    Gpu("t4", (7, 5), 16, "Tesla T4"),
    Gpu("a100", (8, 0), 80, "NVIDIA A100-SXM4-80GB"),
    Gpu("a100-40gb", (8, 0), 40, "NVIDIA A100-SXM4-40GB"),
    Gpu("a800", (8, 0), 80, "NVIDIA A800-SXM4-80GB"),
    Gpu("a30", (8, 0), 24, "NVIDIA A30"),
    Gpu("a10", (8, 6), 24, "NVIDIA A10"),
    Gpu("a10g", (8, 6), 24, "NVIDIA A10G"),
    Gpu("a40", (8, 6), 48, "NVIDIA A40"),
    Gpu("a6000", (8, 6), 48, "NVIDIA RTX A6000"),
    Gpu("rtx3090", (8, 6), 24, "NVIDIA GeForce RTX 3090"),
    Gpu("l4", (8, 9), 24, "NVIDIA L4"),
    Gpu("l40", (8, 9), 48, "NVIDIA L40"),
    Gpu("l40s", (8, 9), 48, "NVIDIA L40S"),
    Gpu("rtx4090", (8, 9), 24, "NVIDIA GeForce RTX 4090"),
    Gpu("h100", (9, 0), 80, "NVIDIA H100 80GB HBM3"),
    Gpu("h800", (9, 0), 80, "NVIDIA H800"),
    Gpu("h20", (9, 0), 96, "NVIDIA H20"),
    Gpu("h200", (9, 0), 141, "NVIDIA H200"),
    Gpu("gh200", (9, 0), 96, "NVIDIA GH200 480GB"),
    Gpu("b200", (10, 0), 180, "NVIDIA B200"),
    Gpu("gb200", (10, 0), 186, "NVIDIA GB200"),
    Gpu("b300", (10, 3), 270, "NVIDIA B300"),
    Gpu("gb300", (10, 3), 277, "NVIDIA GB300"),
    Gpu("rtx5090", (12, 0), 32, "NVIDIA GeForce RTX 5090"),
    Gpu("rtxpro6000", (12, 0), 96, "NVIDIA RTX PRO 6000 Blackwell"),
    Gpu("gb10", (12, 1), 120, "NVIDIA GB10"),
)

GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in _TABLE}
DEFAULT_GPU = "h100"


def find_gpu(text: str) -> Gpu:
    """The GPU that a name such as `h100`, `H100-80GB` or `nvidia_l40s` means.

    Raises:
        UsageError: no known kind answers to the name.
    """
    key = text.strip().lower().removeprefix("nvidia").strip(" -_").replace("_", "-")
    if key in GPUS:
        return GPUS[key]
    squeezed = key.replace("-", "").replace(" ", "")
    # The longest name wins: `l40s` is not an `l40`, `gh200` not an `h200`. A number of devices
    # (`h100:2`) is no part of a name.
    for name in sorted(GPUS, key=len, reverse=True) if squeezed.isalnum() else ():
        if squeezed.startswith(name.replace("-", "")):
            return GPUS[name]
    raise UsageError(
        f"gpu {text!r} is not a kind that vllm's kernel choice is known for",
        hint="one of " + ", ".join(GPUS),
    )


def batched_tokens_default(gpu: Gpu) -> tuple[int, int]:
    """Defaults of `vllm serve`: (max_num_batched_tokens, max_num_seqs)."""
    if gpu.memory_gib >= 160:
        return 16384, 1024
    if gpu.memory_gib >= 70 and "a100" not in gpu.device_name.lower() and gpu.capability != (12, 1):
        return 8192, 1024
    return 2048, 256
