"""Free memory: the host's, or the container's if that has less."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.verify import host_memory
from kvplan.verify.devices.device import Room

MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    800 kB\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system of its own: /proc/meminfo, /proc/self/cgroup and the cgroup mount."""
    (tmp_path / "meminfo").write_text(MEMINFO)
    monkeypatch.setattr(host_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host_memory, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host_memory, "_MOUNT", tmp_path / "mount")
    return tmp_path


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_the_host(system: Path) -> None:
    """MemAvailable counts memory that the kernel would take back from cached files."""
    assert host_memory.host_room() == Room(1000 * 1024, 800 * 1024, "MemAvailable")


def test_a_limit_of_version_2(system: Path) -> None:
    """600,000 of which 300,000 are used, 50,000 of them by cached files; the child has no limit."""
    (system / "cgroup").write_text("0::/parent/child\n")
    write(system / "mount/parent", memory__max="600000\n", memory__current="300000\n",
          memory__stat="anon 250000\ninactive_file 50000\n")  # fmt: skip
    write(system / "mount/parent/child", memory__max="max\n", memory__current="300000\n")

    found = host_memory.host_room()

    assert found is not None
    assert (found.total, found.free) == (600_000, 350_000)
    assert "parent/memory.max" in found.origin


def test_a_limit_of_version_1(system: Path) -> None:
    """The memory controller has a tree of its own; a huge number means no limit."""
    (system / "cgroup").write_text("5:cpu:/a\n4:memory:/box\n0::/\n")
    write(system / "mount/memory/box", memory__limit_in_bytes="500000\n",
          memory__usage_in_bytes="400000\n", memory__stat="total_inactive_file 0\n")  # fmt: skip
    write(system / "mount/memory", memory__limit_in_bytes="9223372036854771712\n",
          memory__usage_in_bytes="1\n")  # fmt: skip

    found = host_memory.host_room()

    assert found is not None
    assert (found.total, found.free) == (500_000, 100_000)


def test_a_system_that_does_not_say(system: Path) -> None:
    """Nothing is made up."""
    (system / "meminfo").unlink()
    assert host_memory.host_room() is None
