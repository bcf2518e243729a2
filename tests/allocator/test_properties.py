"""What holds for every order of allocations and frees, and figures worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.allocator import (
    AllocatorConfig,
    AllocatorConfigError,
    CachingAllocator,
    OutOfDeviceMemory,
    Prediction,
    predict,
)

KIB, MIB, GIB = 1024, 1024**2, 1024**3

SPLIT_LIMITS = ["", "max_split_size_mb:20", "max_split_size_mb:64,max_non_split_rounding_mb:32"]
PLAIN = ["", "roundup_power2_divisions:8", "roundup_power2_divisions:[16:4,64:2,>:1]"]
COLLECTION = ["", "garbage_collection_threshold:0.3"]


def config(*texts: str) -> AllocatorConfig:
    return AllocatorConfig.parse(",".join(filter(None, texts)), torch_version="2.14")


plain_configs = st.builds(
    config, st.sampled_from(PLAIN), st.sampled_from(["", "expandable_segments:True"])
)
configs = st.builds(
    config,
    st.sampled_from(PLAIN),
    st.sampled_from(SPLIT_LIMITS),
    st.sampled_from(COLLECTION),
    st.sampled_from(["", "expandable_segments:True"]),
)
sizes = st.one_of(
    st.integers(0, 4 * KIB),
    st.integers(0, 40 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 64 * MIB, 63 * MIB - 1]),
)
#: A size allocates; a negative number frees the live allocation it points at; None empties.
operations = st.lists(st.one_of(sizes, st.integers(-8, -1), st.none()), max_size=60)
fractions = st.sampled_from([None, 0.25, 0.5, 0.999])


def run(allocator: CachingAllocator, steps: Sequence[int | None]) -> list[int]:
    """Perform the steps, requests that do not fit included; returns the live handles."""
    live: list[int] = []
    for step in steps:
        if step is None:
            allocator.empty_cache()
        elif step < 0:
            if live:
                allocator.free(live.pop(step % len(live)))
        else:
            try:
                live.append(allocator.malloc(step))
            except OutOfDeviceMemory:
                continue
    return live


@given(configs, operations, fractions)
def test_figures_stand_in_order(
    config: AllocatorConfig, steps: list[int | None], fraction: float | None
) -> None:
    """Requested <= allocated <= reserved <= limit <= device, and the same for the peaks."""
    allocator = CachingAllocator(config, total_bytes=512 * MIB, memory_fraction=fraction)
    run(allocator, steps)
    stats = allocator.stats
    limit = int((fraction or 1) * 512 * MIB)

    assert 0 <= stats.requested.current <= stats.allocated.current <= stats.reserved.current
    assert stats.requested.peak <= stats.allocated.peak <= stats.reserved.peak <= limit
    assert stats.inactive_split.current <= stats.reserved.current - stats.allocated.current
    assert all(0 <= gauge.current <= gauge.peak for gauge in stats.gauges())


@given(configs, operations)
def test_reserved_is_what_the_device_misses(
    config: AllocatorConfig, steps: list[int | None]
) -> None:
    """Every reserved byte was taken from the device, beside what others hold."""
    allocator = CachingAllocator(config, total_bytes=512 * MIB, other_bytes=100 * MIB)
    run(allocator, steps)

    assert allocator.device.used_bytes == 100 * MIB + allocator.stats.reserved.current


@given(configs, operations, fractions)
def test_freeing_all_leaves_nothing_but_cache(
    config: AllocatorConfig, steps: list[int | None], fraction: float | None
) -> None:
    """Then allocated is 0, whole segments are free, and emptying the cache gives all back."""
    allocator = CachingAllocator(config, total_bytes=512 * MIB, memory_fraction=fraction)
    for handle in run(allocator, steps):
        allocator.free(handle)
    stats = allocator.stats

    assert stats.allocated.current == stats.requested.current == stats.allocations.current == 0
    assert stats.inactive_split.current == 0

    allocator.empty_cache()

    assert stats.reserved.current == stats.segments.current == 0


@given(plain_configs, operations, sizes)
def test_what_was_freed_serves_the_same_size_again(
    config: AllocatorConfig, steps: list[int | None], size: int
) -> None:
    """Without split limits, reserved does not grow when a size just freed is allocated again."""
    allocator = CachingAllocator(config, total_bytes=4 * GIB)
    run(allocator, steps)
    allocator.free(allocator.malloc(size))
    reserved = allocator.stats.reserved.current

    allocator.malloc(size)

    assert allocator.stats.reserved.current == reserved


@given(configs, operations, st.integers(513 * MIB, 2 * GIB))
def test_a_refused_request_changes_no_allocation(
    config: AllocatorConfig, steps: list[int | None], too_large: int
) -> None:
    """It gives back the cache and counts one retry and one refusal."""
    allocator = CachingAllocator(config, total_bytes=512 * MIB)
    run(allocator, steps)
    stats = allocator.stats
    before = (stats.allocated.current, stats.requested.current, stats.allocations.current)
    retries, ooms = stats.retries, stats.ooms

    with pytest.raises(OutOfDeviceMemory) as refused:
        allocator.malloc(too_large)

    assert refused.value.requested_bytes >= too_large
    assert (stats.allocated.current, stats.requested.current, stats.allocations.current) == before
    assert (stats.retries, stats.ooms) == (retries + 1, ooms + 1)


@given(st.lists(st.integers(1, 64 * MIB), max_size=40))
def test_expandable_segments_charge_multiples_of_512_and_hold_whole_pages(
    tensors: list[int],
) -> None:
    """Nothing is charged beyond rounding; one segment per pool, 2 MiB and 20 MiB pages."""
    rounded = [-(-nbytes // 512) * 512 for nbytes in tensors]
    small = sum(size for size in rounded if size <= MIB)
    large = sum(size for size in rounded if size > MIB)

    prediction = predict(tensors, config=config("expandable_segments:True"))

    assert prediction.allocated == small + large
    assert (
        prediction.reserved == -(-small // (2 * MIB)) * 2 * MIB + -(-large // (20 * MIB)) * 20 * MIB
    )


@given(plain_configs, st.lists(st.integers(1, 64 * MIB), max_size=30))
def test_a_prediction_is_the_allocator_after_the_same_tensors(
    config: AllocatorConfig, tensors: list[int]
) -> None:
    """`predict` has no rules of its own."""
    allocator = CachingAllocator(config, total_bytes=8 * GIB)
    for nbytes in tensors:
        allocator.malloc(nbytes)

    assert predict(tensors, config=config) == (
        allocator.stats.allocated.current,
        allocator.stats.reserved.current,
    )


def test_peaks_start_again_from_the_current_values() -> None:
    """`reset_peak_memory_stats`."""
    allocator = CachingAllocator(AllocatorConfig(), total_bytes=GIB)
    handle = allocator.malloc(100 * MIB)
    allocator.malloc(512)
    allocator.free(handle)
    allocator.empty_cache()

    assert allocator.stats.reserved.peak == 102 * MIB

    allocator.stats.reset_peaks()

    assert allocator.stats.allocated.peak == 512
    assert allocator.stats.reserved.peak == 2 * MIB


def test_llama3_8b_at_1000_tokens() -> None:
    """64 tensors of 2,048,000 B, ten in a segment of 20 MiB.

    Nine are cut off, and the tenth takes the rest, 20 MiB - 9 x 2,048,000 = 2,539,520 B, whole,
    because less than 1 MiB would remain: 491,520 B too much in each of the 6 full segments.
    """
    prediction = predict([2_048_000] * 64)

    assert prediction.allocated == 131_072_000 + 6 * 491_520  # + 2,949,120
    assert prediction.reserved == 7 * 20 * MIB  # 131,072,000 + 15,728,640


@pytest.mark.parametrize(
    ("nbytes", "allocated", "reserved"),
    [
        (0, 0, 0),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),  # the largest small size
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 511, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # 1 MiB left is not more than 1 MiB: charged whole
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
    ],
)
def test_one_tensor(nbytes: int, allocated: int, reserved: int) -> None:
    """Rounding, pool and segment of a single request."""
    assert predict([nbytes]) == Prediction(allocated, reserved)


def test_an_oversize_block_is_reused_with_less_than_20_mib_to_spare() -> None:
    """84 MiB cached: 64 MiB would waste 20 MiB and opens a segment; 66 MiB takes all 84."""
    allocator = CachingAllocator(config("max_split_size_mb:64"), total_bytes=GIB)
    allocator.free(allocator.malloc(84 * MIB))

    allocator.malloc(64 * MIB)
    assert allocator.stats.reserved.current == (84 + 64) * MIB

    allocator.malloc(66 * MIB)
    assert allocator.stats.reserved.current == (84 + 64) * MIB
    assert allocator.stats.allocated.current == (84 + 64) * MIB


def test_only_as_many_oversize_blocks_are_given_back_as_are_needed() -> None:
    """256 MiB hold 3 x 64 cached: for 128 MiB two go back, and there is no retry."""
    allocator = CachingAllocator(config("max_split_size_mb:64"), total_bytes=256 * MIB)
    for handle in [allocator.malloc(64 * MIB) for _ in range(3)]:
        allocator.free(handle)

    allocator.malloc(128 * MIB)

    assert allocator.stats.reserved.current == (64 + 128) * MIB
    assert allocator.stats.retries == 0


def test_rounding_to_divisions_of_a_power_of_two() -> None:
    """1100 MiB with 4 steps from 1 GiB on: 1024, 1280, ...; 5,000 B: 4096, 5120, ..."""
    quarters = config("roundup_power2_divisions:4")

    assert predict([1100 * MIB], config=quarters).allocated == 1280 * MIB
    assert predict([5000], config=quarters).allocated == 5120
    assert predict([2000], config=quarters).allocated == 2048  # not above 4 x 512: plain rounding


def test_ten_thousand_tensors_are_predicted_in_a_moment() -> None:
    """Small blocks share 2 MiB segments: two of 1 MiB fill one."""
    assert predict([MIB] * 10_000) == (10_000 * MIB, 10_000 * MIB)


def test_a_limit_needs_the_device() -> None:
    """A share of an unknown size is not guessed, and a known one is kept."""
    half = config("per_process_memory_fraction:0.5")

    with pytest.raises(AllocatorConfigError, match="total"):
        predict([MIB], config=half)
    assert predict([512 * MIB], config=half, total_bytes=GIB).reserved == 512 * MIB
    with pytest.raises(OutOfDeviceMemory) as refused:
        predict([514 * MIB], config=half, total_bytes=GIB)
    assert refused.value.limit_bytes == 512 * MIB


def test_without_caching_torch_reports_nothing() -> None:
    """Every statistic reads 0."""
    assert predict([MIB], config=AllocatorConfig(backend="uncached")) == (0, 0)


def test_handles_are_freed_once() -> None:
    """A second free, and a free of what was never allocated, are mistakes of the caller."""
    allocator = CachingAllocator(AllocatorConfig(), total_bytes=GIB)
    handle = allocator.malloc(MIB)
    allocator.free(handle)

    with pytest.raises(KeyError):
        allocator.free(handle)
    with pytest.raises(ValueError, match="-1"):
        allocator.malloc(-1)
