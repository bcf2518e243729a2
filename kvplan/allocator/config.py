"""The options of PyTorch's CUDA allocator that decide its figures, and where they come from.

Defaults and the precedence of the environment variables follow torch 2.6 to 2.14
(c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.allocator.options import (
    TIES_BY_AGE,
    VARIABLES,
    WHOLE_FRACTION_IS_NO_LIMIT_SINCE,
    AllocatorConfigError,
    supported_version,
)
from kvplan.allocator.reader import read_options
from kvplan.allocator.rounding import DIVISION_INTERVALS, LARGE_SEGMENT

# Either name, in CUDA and ROCm builds alike.
UNCACHED_VARIABLES = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorConfig:
    """The options that decide the figures; the defaults are torch's own.

    Attributes:
        backend: `native`, `cudaMallocAsync` (the driver's pool), or `uncached` (every statistic
            of torch reads 0).
        expandable_segments: grow segments page by page instead of allocating new ones.
        roundup_power2_divisions: steps per power of two for 16 intervals from 1 MiB on; 0: none.
        max_split_bytes: blocks from this size on are never split; None: no such size.
        max_non_split_rounding_bytes: waste accepted when such a block is reused.
        garbage_collection_threshold: share of the process limit; 0: no collection.
        large_segment_bytes: segment for sizes above 1 MiB and below 10 MiB.
        memory_fraction: share of the device this process may hold; None: not limited.
        rejects_early: refuse at once, giving nothing back to make room, what would exceed
            `memory_fraction` (or the whole device) together with the cached memory.
        whole_fraction_limits: a fraction of 1 set by the process still counts as a limit.
        ties_by_age: of equally large free blocks take the oldest, not the lowest address.
    """

    backend: str = "native"
    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = (0,) * DIVISION_INTERVALS
    max_split_bytes: int | None = None
    max_non_split_rounding_bytes: int = LARGE_SEGMENT
    garbage_collection_threshold: float = 0.0
    large_segment_bytes: int = LARGE_SEGMENT
    memory_fraction: float | None = None
    rejects_early: bool = False
    whole_fraction_limits: bool = False
    ties_by_age: bool = False

    def __post_init__(self) -> None:
        if len(self.roundup_power2_divisions) != DIVISION_INTERVALS:
            raise AllocatorConfigError(
                f"roundup_power2_divisions has {len(self.roundup_power2_divisions)} entries, "
                f"not {DIVISION_INTERVALS}"
            )

    @classmethod
    def parse(cls, text: str, *, torch_version: str) -> AllocatorConfig:
        """Read the value of the environment variable.

        Args:
            text: the value; empty for the defaults.
            torch_version: such as `2.9.1+cu128`; options newer than it are refused, as torch does.

        Raises:
            AllocatorConfigError: naming the option, the value and what is allowed.
        """
        version = supported_version(torch_version)
        return cls(
            whole_fraction_limits=version < WHOLE_FRACTION_IS_NO_LIMIT_SINCE,
            ties_by_age=version in TIES_BY_AGE,
            **read_options(text, version),
        )

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, torch_version: str
    ) -> AllocatorConfig:
        """Read the variables that this torch version reads, by its precedence.

        Raises:
            AllocatorConfigError: as `parse`.
        """
        version = supported_version(torch_version)
        if any(
            name in environment for name in UNCACHED_VARIABLES
        ):  # set at all, whatever the value
            return cls(backend="uncached")
        for variable, since in VARIABLES.items():
            if version >= since and variable in environment:
                return cls.parse(environment[variable], torch_version=torch_version)
        return cls.parse("", torch_version=torch_version)

    def limit_bytes(self, total_bytes: int, memory_fraction: float | None) -> int | None:
        """Most bytes the process may hold; None: all that the device has.

        Args:
            total_bytes: memory of the device.
            memory_fraction: set by the process itself, which overrides the option; or None.

        Raises:
            AllocatorConfigError: a fraction outside 0 to 1.
        """
        if memory_fraction is not None and not 0 <= memory_fraction <= 1:
            raise AllocatorConfigError(f"memory fraction {memory_fraction} is not from 0 to 1")
        if memory_fraction is None:
            memory_fraction = self.memory_fraction
        if memory_fraction is None or (memory_fraction == 1 and not self.whole_fraction_limits):
            return None
        return int(memory_fraction * total_bytes)

    def rejection_bytes(self, total_bytes: int) -> int | None:
        """Where `throw_on_cudamalloc_oom` refuses; None: nowhere."""
        if not self.rejects_early:
            return None
        return int((1.0 if self.memory_fraction is None else self.memory_fraction) * total_bytes)

    def is_oversize(self, size: int) -> bool:
        """Whether a block or rounded request of `size` bytes falls under max_split_size_mb."""
        return self.max_split_bytes is not None and size >= self.max_split_bytes
