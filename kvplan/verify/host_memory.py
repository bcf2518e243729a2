"""Free memory of this host, or of the container it is in, if that has less.

Linux only: `/proc/meminfo` and the memory limits of the process's control groups (v1 and v2, every
ancestor). Memory that holds cached files counts as free in both, because the kernel takes it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kvplan.verify.devices.device import Room

_MEMINFO = Path("/proc/meminfo")
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")

# (limit, usage, cached files in memory.stat) by version of control groups
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def host_room() -> Room | None:
    """The tightest of the host's memory and the limits around this process; None if not said."""
    host = _host()
    if host is None:
        return None
    return min((host, *_limits(host.total)), key=lambda room: room.free)


def _host() -> Room | None:
    found = _table(_MEMINFO)
    total, free = found.get("MemTotal:"), found.get("MemAvailable:")
    if total is None or free is None:
        return None
    return Room(total * 1024, free * 1024, "MemAvailable")


def _limits(host_total: int) -> Iterator[Room]:
    for version, folder in _groups():
        limit_name, usage_name, cached_name = _FILES[version]
        for group in (folder, *folder.parents):
            limit, usage = _number(group / limit_name), _number(group / usage_name)
            # v1 writes a huge number where there is no limit
            if limit is not None and usage is not None and limit < host_total:
                cached = _table(group / "memory.stat").get(cached_name, 0)
                free = max(limit - max(usage - cached, 0), 0)
                yield Room(limit, free, f"control group limit {group / limit_name}")
            if group == _MOUNT:
                break


def _groups() -> Iterator[tuple[int, Path]]:
    """(version, folder) of the process's memory groups."""
    try:
        lines = _GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        below = str(PurePosixPath(path)).lstrip("/")
        if number == "0":
            yield 2, _MOUNT / below
        elif "memory" in controllers.split(","):
            yield 1, _MOUNT / "memory" / below


def _table(path: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    parts = (line.split() for line in lines)
    return {p[0]: int(p[1]) for p in parts if len(p) > 1 and p[1].isdigit()}


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
