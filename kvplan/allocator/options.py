"""Which options of the allocator each torch version knows, as data with boundaries.

Read from the option names inside `libc10` and `libc10_cuda` of the published wheels of torch 2.6.0,
2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.0, 2.13.0 and 2.14.1. An option is known from the version
where it first appears; none has been removed.
"""

from __future__ import annotations

import re

from kvplan.errors import InputError

Version = tuple[int, int]  # (major, minor) of torch

OLDEST: Version = (2, 6)
NEWEST: Version = (2, 14)

#: Options that decide the figures of device memory.
DEVICE_OPTIONS: dict[str, Version] = {
    "backend": (2, 6),
    "expandable_segments": (2, 6),
    "garbage_collection_threshold": (2, 6),
    "max_non_split_rounding_mb": (2, 6),
    "max_split_size_mb": (2, 6),
    "roundup_power2_divisions": (2, 6),
    "per_process_memory_fraction": (2, 10),
    "large_segment_size_mb": (2, 11),
    "throw_on_cudamalloc_oom": (2, 12),
}

#: Options about locks, graphs or pinned host memory: without effect on the figures here, so their
#: values are not looked at.
OTHER_OPTIONS: dict[str, Version] = {
    "pinned_num_register_threads": (2, 6),
    "pinned_use_background_threads": (2, 6),
    "pinned_use_cuda_host_register": (2, 6),
    "pinned_use_hip_host_register": (2, 6),
    "release_lock_on_cudamalloc": (2, 6),
    "release_lock_on_hipmalloc": (2, 6),
    "graph_capture_record_stream_reuse": (2, 9),
    "pinned_reserve_segment_size_mb": (2, 10),
    "pinned_free_catch_all": (2, 12),
    "pinned_max_cached_size_mb": (2, 13),
    "pinned_max_round_threshold_mb": (2, 13),
}

KNOWN_SINCE: dict[str, Version] = DEVICE_OPTIONS | OTHER_OPTIONS

# Rules that differ between versions; seen by driving the allocators of 2.6.0, 2.7.1, 2.8.0, 2.9.1,
# 2.10.0, 2.11.0, 2.12.0, 2.13.0 and 2.14.1.

#: Environment variables in the order of precedence, and since when each is read: the first that is
#: set counts, even if empty. CUDA builds read the one named after HIP too.
VARIABLES: dict[str, Version] = {
    "PYTORCH_CUDA_ALLOC_CONF": (2, 6),
    "PYTORCH_HIP_ALLOC_CONF": (2, 10),
    "PYTORCH_ALLOC_CONF": (2, 10),
}

#: `max_split_size_mb` and `max_non_split_rounding_mb` may equal the size of a large segment.
#: Before, they had to exceed it.
SEGMENT_SIZE_ALLOWED_SINCE: Version = (2, 10)

#: In `roundup_power2_divisions:[512:4,>:1]` the entry `>` begins above the interval of 512 MiB.
#: Before, it began with that interval and so undid the last size named.
REST_BEGINS_ABOVE_SINCE: Version = (2, 10)

#: Of equally large free blocks the oldest is taken. All others take the lowest address (2.13 and
#: 2.14: in the oldest segment, which in this model is the lowest).
TIES_BY_AGE: frozenset[Version] = frozenset({(2, 12)})

#: `set_per_process_memory_fraction(1.0)` means no limit. Before, it set one: the device's total.
WHOLE_FRACTION_IS_NO_LIMIT_SINCE: Version = (2, 10)


class AllocatorConfigError(InputError):
    """Allocator options that torch refuses, or whose effect on the figures is not known here."""


def supported_version(text: str) -> Version:
    """`"2.14.1+cu130"` -> `(2, 14)`.

    Raises:
        AllocatorConfigError: not a version, or one whose rules were not compared.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\D|$)", text)
    if match is None:
        raise AllocatorConfigError(f"torch version {text!r} does not start with MAJOR.MINOR")
    version = int(match[1]), int(match[2])
    if not OLDEST <= version <= NEWEST:
        raise AllocatorConfigError(
            f"the allocator of torch {text} is not known",
            hint=f"rules are known from torch {_dotted(OLDEST)} to {_dotted(NEWEST)}",
        )
    return version


def require_known(option: str, version: Version) -> None:
    """Refuse an option that this torch version refuses."""
    since = KNOWN_SINCE.get(option)
    if since is None:
        raise AllocatorConfigError(
            f"unknown allocator option `{option}`", hint=f"known are {', '.join(KNOWN_SINCE)}"
        )
    if version < since:
        raise AllocatorConfigError(
            f"torch {_dotted(version)} does not know the allocator option `{option}`",
            hint=f"it is known from torch {_dotted(since)} on",
        )


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
