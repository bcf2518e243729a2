"""What torch's allocator will say of a sequence of tensors, or why that cannot be predicted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kvplan.allocator import AllocatorConfig, CachingAllocator, OutOfDeviceMemory
from kvplan.allocator.options import VARIABLES, AllocatorConfigError, supported_version
from kvplan.allocator.predict import ROOMY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Bytes once all tensors are allocated, or all that fit.

    Attributes:
        requested, allocated, reserved: as torch reports them; None when not predictable.
        driver: bytes gone from the device's free memory.
        allocated_peak, reserved_peak: their maxima on the way.
        fails_at: index of the tensor that does not fit; None when all do.
        reason: why nothing is predicted, else empty.
    """

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    driver: int | None = None
    allocated_peak: int | None = None
    reserved_peak: int | None = None
    fails_at: int | None = None
    reason: str = ""


def unpredictable(reason: str) -> Forecast:
    """No figures, and why."""
    return Forecast(reason=reason)


def check_options(environment: Mapping[str, str], build: Build) -> None:
    """Raise AllocatorConfigError for options that this torch would refuse when it starts."""
    settings_of(environment, build)


def settings_of(environment: Mapping[str, str], build: Build) -> AllocatorConfig | str:
    """The allocator's options under this build, or why they are not known.

    Raises:
        AllocatorConfigError: options that this torch would refuse.
    """
    unknown = _unknown_version(build.version)
    if unknown is not None:
        return unknown
    try:
        read = build.environment(environment)
    except AllocatorConfigError as error:
        return error.message
    config = AllocatorConfig.from_environment(read, torch_version=build.version)
    return config if build.grows_segments else replace(config, expandable_segments=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Which torch this is, as far as its allocator's options depend on it.

    Attributes:
        version: as torch writes it.
        hip: version of ROCm, None for a CUDA build.
        windows: whether it runs there.
    """

    version: str
    hip: str | None = None
    windows: bool = False

    @property
    def grows_segments(self) -> bool:
        """Whether expandable segments exist; where they do not, torch warns and goes without."""
        old = self.hip is not None and not _ROCM_GROWS.match(self.hip)
        return not self.windows and not old

    def environment(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """The variables as this build reads them: before 2.10 a ROCm build has a name of its own.

        Raises:
            AllocatorConfigError: which name counts is not known.
        """
        if self.hip is None or supported_version(self.version) >= _ONE_NAME:
            return given
        found = {name: text for name, text in given.items() if name not in VARIABLES}
        if _HIP in given:
            return {**found, _CUDA: given[_HIP]}
        if _CUDA in given:
            raise AllocatorConfigError(
                f"whether torch {self.version} for ROCm reads {_CUDA} is not known",
                hint=f"{_HIP} is the name there",
            )
        return found


_HIP, _CUDA = "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
_ONE_NAME = (2, 10)  # from here on every build reads every name
_ROCM_GROWS = re.compile(r"([7-9]|\d{2,})\.")
_BETWEEN = re.compile(r"\d+\.\d+\.\d+(?:a|b|rc|\.dev)\d*")


def _unknown_version(torch_version: str) -> str | None:
    """Why this version's allocator is not known; None when it is."""
    if _BETWEEN.match(torch_version):
        return f"torch {torch_version} is a build between releases, whose rules may be either's"
    try:
        supported_version(torch_version)
    except AllocatorConfigError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return None


def forecast(
    sizes: Sequence[int],
    *,
    environment: Mapping[str, str],
    build: Build,
    backend: str,
    total_bytes: int | None = None,
    other_bytes: int = 0,
) -> Forecast:
    """Run `sizes` through the allocator model, from an empty allocator on.

    Args:
        sizes: bytes of each tensor, in order.
        environment: where the allocator's options stand.
        build: decides which options and rules exist.
        backend: the allocator that torch says it uses.
        total_bytes, other_bytes: memory of the device, and what others hold of it; without a total
            the tensors are taken to fit.

    Raises:
        AllocatorConfigError: options that this torch would refuse.
    """
    if backend != "native":
        return unpredictable(
            f"backend {backend}: the figures are the driver pool's, whose rules are not public"
        )
    config = settings_of(environment, build)
    if isinstance(config, str):
        return unpredictable(config)
    if config.backend != "native":
        return unpredictable(f"backend {config.backend}: torch counts nothing it could be held to")
    if total_bytes is None and config.limit_bytes(ROOMY_BYTES, None) is not None:
        return unpredictable("a share of the device's memory is the limit")
    allocator = CachingAllocator(
        config,
        total_bytes=ROOMY_BYTES if total_bytes is None else total_bytes,
        other_bytes=other_bytes,
    )
    fails_at = _allocate(allocator, sizes)
    stats = allocator.stats
    return Forecast(
        requested=stats.requested.current,
        allocated=stats.allocated.current,
        reserved=stats.reserved.current,
        driver=allocator.device.used_bytes - other_bytes,
        allocated_peak=stats.allocated.peak,
        reserved_peak=stats.reserved.peak,
        fails_at=fails_at,
    )


def _allocate(allocator: CachingAllocator, sizes: Sequence[int]) -> int | None:
    """Allocate in order; the index of the first that does not fit, None when all do."""
    done = 0
    try:
        for size in sizes:
            allocator.malloc(size)
            done += 1
    except OutOfDeviceMemory:
        return done
    return None
