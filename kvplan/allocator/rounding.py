"""From the bytes of a tensor to the bytes it is charged and the segment it may open.

    request    ->  rounded size: 512 B steps, or 1/N steps between powers of two
    rounded    ->  small pool up to 1 MiB, large pool above
    rounded    ->  new segment: 2 MiB, or 20 MiB below 10 MiB, or its own size in 2 MiB steps

Source: PyTorch 2.6 to 2.14, c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h.
"""

from __future__ import annotations

from kvplan.arithmetic import round_up

MIB = 1 << 20
MIN_BLOCK = 512  # every block is a multiple of it
SMALL_MAX = 1 * MIB  # largest size served by the small pool
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB  # default of large_segment_size_mb
OWN_SEGMENT_MIN = 10 * MIB  # from here on a request opens a segment of its own size
OWN_SEGMENT_STEP = 2 * MIB

#: Entries of `roundup_power2_divisions`: [1, 2) MiB, [2, 4) MiB, ... and from 32 GiB up.
#: Sizes below 1 MiB use the first.
DIVISION_INTERVALS = 16


def round_size(nbytes: int, divisions: tuple[int, ...]) -> int:
    """Bytes charged for a request of `nbytes` when the block found can be split exactly.

    Args:
        nbytes: bytes asked for, at least 1.
        divisions: steps per power of two for each of the 16 intervals; 0 and 1 mean none.
    """
    if nbytes < MIN_BLOCK:
        return MIN_BLOCK
    steps = divisions[division_interval(nbytes)]
    if steps > 1 and nbytes > MIN_BLOCK * steps:
        return round_to_division(nbytes, steps)
    return round_up(nbytes, MIN_BLOCK)


def division_interval(nbytes: int) -> int:
    """Index of the interval of `roundup_power2_divisions` that holds `nbytes`."""
    exponent = nbytes.bit_length() - 1
    return min(max(exponent - 20, 0), DIVISION_INTERVALS - 1)  # 2**20 = 1 MiB


def round_to_division(nbytes: int, steps: int) -> int:
    """Up to the next of `steps` equal steps between two powers of two.

    5000 with 4 steps: 4096, 5120, 6144, 7168 -> 5120. `steps` is a power of two below `nbytes`.
    """
    power = 1 << (nbytes.bit_length() - 1)
    return round_up(nbytes, power // steps)


def segment_size(size: int, large_segment: int = LARGE_SEGMENT) -> int:
    """Bytes asked of the driver when no free block serves the rounded `size`."""
    if size <= SMALL_MAX:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT_MIN:
        return large_segment
    return round_up(size, OWN_SEGMENT_STEP)
