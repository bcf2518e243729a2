"""Resident memory as smaps tells it."""

from __future__ import annotations

import mmap
import sys

import pytest

from kvplan.verify import resident

SMAPS = """\
10000-14000 rw-p 00000000 00:00 0
Size:                 16 kB
Rss:                  12 kB
Pss:                  12 kB
Swap:                  4 kB
SwapPss:               4 kB
VmFlags: rd wr mr
20000-22000 rw-p 00000000 00:00 0                        [heap]
Rss:                   8 kB
Swap:                  0 kB
"""


@pytest.fixture
def smaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "_read", lambda path: SMAPS)


def test_areas() -> None:
    """Each mapping with what is in memory and in swap: 12 + 4 kB, 8 kB."""
    assert list(resident.areas(SMAPS)) == [
        (0x10000, 0x14000, 16 * 1024),
        (0x20000, 0x22000, 8 * 1024),
    ]


@pytest.mark.usefixtures("smaps")
def test_only_the_ranges_count() -> None:
    """The heap is someone else's."""
    assert resident.held_in([(0x10000, 0x14000)]) == 16 * 1024


@pytest.mark.usefixtures("smaps")
def test_neighbours_may_share_a_mapping() -> None:
    """The kernel joins two of our own that touch."""
    assert resident.held_in([(0x12000, 0x14000), (0x10000, 0x12000)]) == 16 * 1024


@pytest.mark.usefixtures("smaps")
@pytest.mark.parametrize(
    "ranges", [[(0x10000, 0x13000)], [(0x11000, 0x14000)], [(0x10000, 0x11000), (0x12000, 0x14000)]]
)
def test_a_mapping_with_foreign_pages_says_nothing(ranges: list[tuple[int, int]]) -> None:
    """Its figure would count pages that are not ours."""
    assert resident.held_in(ranges) is None


def test_no_such_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems report nothing, and nothing is made up."""
    monkeypatch.setattr(resident, "_read", lambda path: None)
    assert resident.held_in([(0, 4096)]) is None
    assert resident.process_anonymous() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has smaps")
def test_the_process_grows_by_what_is_written() -> None:
    """8 MiB of pages written show in the process within a fraction of a MiB."""
    resident.process_anonymous()
    before = resident.process_anonymous()
    mapped = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, 8 << 20, mmap.PAGESIZE):
        mapped[page] = 1
    after = resident.process_anonymous()
    mapped.close()

    assert before is not None
    assert after is not None
    assert abs(after - before - (8 << 20)) < 1 << 19
