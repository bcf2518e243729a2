"""The catalogue's two files, and a file of the user's own, read line by line.

devices.tsv and instances.tsv are tables with a heading line, `#` lines are comments. A row becomes
a `Device` only when it is asked for, so a look-up costs less than a millisecond. `KVPLAN_GPUS` may
name a file of one's own: the same columns in any order, of which only `name` and `memory` (what
programs find: `23.6GiB`) are needed; its devices hide those of the catalogue that have their name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from kvplan.errors import InputError
from kvplan.hardware.device import Device
from kvplan.named_tuple import NamedTuple
from kvplan.units import GIB, parse_bytes

ENVIRONMENT = "KVPLAN_GPUS"
_LARGEST = 2**20

Row = dict[str, str]


class Instance(NamedTuple):
    """A cloud machine: its devices and how many."""

    cloud: str
    name: str
    device: str
    number: int
    source: str
    notes: str


@cache
def device_rows() -> tuple[Row, ...]:
    """The rows of devices.tsv."""
    return tuple(_rows(_packaged("devices.tsv")))


@cache
def instances() -> dict[str, Instance]:
    """Cloud machines by their name in lower case."""
    found = {}
    for row in _rows(_packaged("instances.tsv")):
        found[row["name"].lower()] = Instance(
            row["cloud"], row["name"], row["device"], int(row["count"]), row["source"], row["notes"]
        )
    return found


def own_rows() -> tuple[Row, ...]:
    """The rows of the user's own file; () without one.

    Raises:
        InputError: it cannot be read, or a row lacks a name or a size.
    """
    path = os.environ.get(ENVIRONMENT, "")
    return _own(path, os.stat(path).st_mtime_ns if os.path.isfile(path) else 0) if path else ()


@cache
def _own(path: str, modified: int) -> tuple[Row, ...]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", where=path) from None
    rows = []
    known = (*device_rows()[0], "memory")
    for number, row in _numbered(text, "," if "\t" not in text else "\t"):
        where = f"{path}:{number}:1"
        unknown = [key for key in row if key not in known]
        if unknown:
            raise InputError(
                f"column {unknown[0]!r} is none of a device",
                where=f"{path}:1:1",
                hint="columns: memory, " + ", ".join(device_rows()[0]),
            )
        if not row.get("name"):
            raise InputError("a device without a name", where=where)
        if not row.get("memory"):
            raise InputError(
                f"device {row['name']!r} has no memory",
                where=where,
                hint="write what programs find on it, such as 23.6GiB, in a column `memory`",
            )
        parse_bytes(row["memory"], f"{where}: memory")
        rows.append({**dict.fromkeys(known, ""), **row, "source": row.get("source") or path})
    return tuple(rows)


def device_of(row: Row) -> Device:
    """The device that a row describes.

    Raises:
        InputError: a cell of the user's own file that is no number.
    """
    names = row["names"].split()
    whole = tuple(name[1:] for name in names if name.startswith("="))
    bases = tuple(name for name in names if not name.startswith("="))
    seen: tuple[float, ...] | None = None
    if row.get("memory"):
        seen = (parse_bytes(row["memory"], "memory") / GIB,) * 3
    elif row["torch_gib"]:
        seen = tuple(float(part) for part in row["torch_gib"].split(".."))
        seen = (seen[0], sum(seen) / len(seen), seen[-1]) if len(seen) != 3 else seen
    capability = row["capability"].partition(".")
    try:
        return Device(
            name=row["name"],
            product=row["product"] or row["name"],
            vendor=row["vendor"],
            architecture=row["architecture"],
            memory_gb=_number(row["memory_gb"]),
            driver_mib=int(row["driver_mib"]) if row["driver_mib"] else None,
            torch_gib=None if seen is None else (seen[0], seen[1], seen[2]),
            bandwidth_gbs=_number(row["bandwidth_gbs"]),
            fp16_tflops=_number(row["fp16_tflops"]),
            fp8_tflops=_number(row["fp8_tflops"]),
            capability=(int(capability[0]), int(capability[2])) if capability[2] else None,
            fp8=row["fp8"],
            nvlink_gbs=_number(row["nvlink_gbs"]),
            unified=row["unified"] == "yes",
            form=row["form"],
            driver_name=row["driver_name"],
            bases=bases,
            whole=whole,
            source=row["source"],
            notes=row["notes"],
        )
    except ValueError:
        raise InputError(f"device {row['name']!r} has a cell that is no number") from None


def _number(text: str) -> float | None:
    return float(text) if text else None


def _packaged(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), name)
    loader = __spec__.loader if __spec__ else None
    if loader is not None and hasattr(loader, "get_data"):  # inside an archive too
        data: bytes = loader.get_data(path)
        return data.decode("utf-8")
    with open(path, encoding="utf-8") as file:
        return file.read()


def _rows(text: str) -> Iterator[Row]:
    return (row for _, row in _numbered(text, "\t"))


def _numbered(text: str, separator: str) -> Iterator[tuple[int, Row]]:
    """Line number and row of every line that is no comment; the first is the heading."""
    heading: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(separator)]
        if not heading:
            heading = cells
            continue
        yield number, dict(zip(heading, cells, strict=False))
