"""Allocator options are read as the torch of that version reads them, or refused."""

from __future__ import annotations

import pytest

from kvplan.allocator import AllocatorConfig, AllocatorConfigError, CachingAllocator
from kvplan.errors import InputError

MIB = 1024 * 1024


def parse(text: str, torch_version: str = "2.14.1") -> AllocatorConfig:
    return AllocatorConfig.parse(text, torch_version=torch_version)


def test_an_empty_text_gives_the_defaults() -> None:
    """No option set: no split limit, no rounding, 20 MiB segments, no limit on the process."""
    config = parse("")

    assert config == AllocatorConfig()
    assert config.max_split_bytes is None
    assert config.large_segment_bytes == 20 * MIB
    assert config.max_non_split_rounding_bytes == 20 * MIB
    assert config.limit_bytes(1000, None) is None


def test_options_are_joined_by_commas_and_white_space_does_not_count() -> None:
    """A trailing comma is allowed, as torch allows it."""
    config = parse(" max_split_size_mb : 64 , expandable_segments:True,")

    assert config.max_split_bytes == 64 * MIB
    assert config.expandable_segments


def test_the_last_of_two_equal_options_wins() -> None:
    """As in torch."""
    assert parse("max_split_size_mb:64,max_split_size_mb:32").max_split_bytes == 32 * MIB


def test_the_first_list_entry_covers_all_sizes_below_and_gaps_keep_no_rounding() -> None:
    """[64:8,256:4,1024:2,>:1]: below 128 MiB 8; 128 MiB none; 256 MiB 4; 512 MiB none; 1 GiB 2."""
    config = parse("roundup_power2_divisions:[64:8,256:4,1024:2,>:1]")

    #                                            1..64 MiB  128 256 512 1G   2G .. 32G
    assert config.roundup_power2_divisions == (*(8,) * 7, 0, 4, 0, 2, *(1,) * 5)


def test_before_2_10_the_rest_undoes_the_last_size() -> None:
    """`>` began with the interval of the last size named."""
    old = parse("roundup_power2_divisions:[64:8,256:4,>:1]", "2.9.1")
    new = parse("roundup_power2_divisions:[64:8,256:4,>:1]", "2.10.0")

    assert old.roundup_power2_divisions == (*(8,) * 7, 0, *(1,) * 8)
    assert new.roundup_power2_divisions == (*(8,) * 7, 0, 4, *(1,) * 7)


def test_one_number_rounds_all_sizes() -> None:
    """The old form without a list."""
    assert parse("roundup_power2_divisions:16").roundup_power2_divisions == (16,) * 16


def test_a_large_segment_size_raises_the_waste_accepted_wherever_it_stands() -> None:
    """It is read first, since it is the default and the lower limit of two others."""
    config = parse("max_split_size_mb:40,large_segment_size_mb:40")

    assert config.max_non_split_rounding_bytes == 40 * MIB
    with pytest.raises(AllocatorConfigError, match="max_split_size_mb"):
        parse("max_split_size_mb:30,large_segment_size_mb:40")


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:19",
        "max_split_size_mb:-64",
        "max_split_size_mb",
        "max_split_size_mb:",
        "max_split_size_mb=64",
        "max_split_size_mb:64;expandable_segments:True",
        "max_non_split_rounding_mb:19",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:1.0",
        "garbage_collection_threshold:high",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[3:2]",
        "roundup_power2_divisions:[2:3]",
        "roundup_power2_divisions:[0:4]",
        "roundup_power2_divisions:[2]",
        "roundup_power2_divisions:[2:4",
        "expandable_segments:true",
        "large_segment_size_mb:10",
        "large_segment_size_mb:13,expandable_segments:True",
        "per_process_memory_fraction:1.1",
        "throw_on_cudamalloc_oom:1",
        "backend:jemalloc",
        "max_split_size:64",
    ],
)
def test_what_torch_refuses_is_refused(text: str) -> None:
    """Each with the option named; also values of which torch would read only the beginning."""
    with pytest.raises(AllocatorConfigError, match=text.split("=")[0].split(":")[0]):
        parse(text)


def test_the_message_says_what_is_allowed() -> None:
    """Option, value, limit."""
    with pytest.raises(InputError) as refused:
        parse("max_split_size_mb:8")

    assert str(refused.value) == (
        "allocator option `max_split_size_mb` cannot be '8'\n"
        "hint: allowed: a whole number from 20 on"
    )


def test_before_2_10_a_split_limit_had_to_exceed_the_segment() -> None:
    """20 MiB is refused by 2.9, taken by 2.10."""
    assert parse("max_split_size_mb:20", "2.10").max_split_bytes == 20 * MIB
    assert parse("max_split_size_mb:21", "2.9").max_split_bytes == 21 * MIB
    with pytest.raises(AllocatorConfigError, match="max_split_size_mb"):
        parse("max_split_size_mb:20", "2.9")


@pytest.mark.parametrize(
    ("text", "last_without", "first_with"),
    [
        ("graph_capture_record_stream_reuse:True", "2.8.0", "2.9.1"),
        ("per_process_memory_fraction:0.5", "2.9.1", "2.10.0"),
        ("large_segment_size_mb:32", "2.10.0", "2.11.0"),
        ("throw_on_cudamalloc_oom:True", "2.11.0", "2.12.0"),
        ("pinned_max_cached_size_mb:64", "2.12.0", "2.13.0"),
    ],
)
def test_an_option_newer_than_torch_is_refused(
    text: str, last_without: str, first_with: str
) -> None:
    """Options stop torch versions that do not know them."""
    parse(text, first_with)
    with pytest.raises(AllocatorConfigError, match="does not know"):
        parse(text, last_without)


@pytest.mark.parametrize("version", ["2.5.1", "2.15.0", "3.0", "nightly"])
def test_a_torch_version_with_unknown_rules_is_refused(version: str) -> None:
    """Rules are known from 2.6 to 2.14; nothing is assumed beyond."""
    with pytest.raises(AllocatorConfigError, match="torch"):
        parse("", version)


def test_the_cuda_variable_wins_over_the_generic_one() -> None:
    """From 2.10 on the generic one is read when neither the CUDA nor the HIP one is set at all."""
    both = {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "PYTORCH_ALLOC_CONF": "max_split_size_mb:32",
    }
    generic = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:32"}
    read = AllocatorConfig.from_environment

    assert read(both, torch_version="2.14.1").max_split_bytes == 64 * MIB
    assert read(generic, torch_version="2.10.0").max_split_bytes == 32 * MIB
    assert read(generic, torch_version="2.9.1").max_split_bytes is None
    assert (
        read(generic | {"PYTORCH_CUDA_ALLOC_CONF": ""}, torch_version="2.14") == AllocatorConfig()
    )
    assert read(
        generic | {"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:48"}, torch_version="2.14"
    ).max_split_bytes == (48 * MIB)


def test_without_caching_every_statistic_reads_zero() -> None:
    """The variable counts when it is set at all."""
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

    assert AllocatorConfig.from_environment(environment, torch_version="2.6").backend == "uncached"


def test_a_whole_fraction_is_a_limit_only_before_2_10() -> None:
    """`set_per_process_memory_fraction(1.0)` and the option's default."""
    assert parse("", "2.9.1").limit_bytes(1000, 1.0) == 1000
    assert parse("", "2.10.0").limit_bytes(1000, 1.0) is None
    assert parse("per_process_memory_fraction:1.0").limit_bytes(1000, None) is None


def test_the_process_overrides_the_fraction_of_the_option() -> None:
    """The later call wins."""
    config = parse("per_process_memory_fraction:0.5")

    assert config.limit_bytes(1001, None) == 500
    assert config.limit_bytes(1000, 0.25) == 250


def test_what_is_no_share_is_refused() -> None:
    """As `set_per_process_memory_fraction` refuses it."""
    with pytest.raises(AllocatorConfigError, match=r"1\.5"):
        CachingAllocator(AllocatorConfig(), total_bytes=1 << 30, memory_fraction=1.5)
    with pytest.raises(AllocatorConfigError, match="entries"):
        AllocatorConfig(roundup_power2_divisions=(4,))


def test_the_driver_pool_is_not_simulated() -> None:
    """Its figures do not follow from the caching allocator's rules."""
    with pytest.raises(AllocatorConfigError, match="cudaMallocAsync"):
        CachingAllocator(parse("backend:cudaMallocAsync"), total_bytes=1 << 30)
