"""`kvplan gpus`: one line per device, or everything known about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.units import GIB, format_count

if TYPE_CHECKING:
    from kvplan.plan.devices import Listed
    from kvplan.report.console import Console


def gpu_facts(found: Iterable[Listed]) -> list[dict[str, Any]]:
    """The plain facts of each device, by the contract's names; null where no source says."""
    return [_facts(listed) for listed in found]


def _facts(listed: Listed) -> dict[str, Any]:
    device = listed.device
    total = device.total()
    capability = device.capability
    return {
        "name": device.name,
        "product": device.product,
        "count": listed.number,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "memory_gb": device.memory_gb,
        "driver_mib": device.driver_mib,
        "total_bytes": total.mid if total else None,
        "total_low_bytes": total.low if total else None,
        "total_high_bytes": total.high if total else None,
        "total_origin": total.origin if total else None,
        "bandwidth_gbs": device.bandwidth_gbs,
        "fp16_tflops": device.fp16_tflops,
        "fp8_tflops": device.fp8_tflops,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "fp8": device.fp8 or None,
        "nvlink_gbs": device.nvlink_gbs,
        "unified": device.unified,
        "machines": list(listed.machines),
        "source": device.source,
        "notes": device.notes or None,
    }


def table(console: Console, found: Sequence[Listed]) -> None:
    """One line per device."""
    from kvplan.report.console import Column
    from kvplan.report.tables import print_table

    columns = [
        Column("device"), Column("sold as GB", "right", rank=1),
        Column("programs find GiB", "right"),
        Column("GB/s", "right", rank=2), Column("capability", "right", rank=3),
        Column("product", rank=4),
    ]  # fmt: skip
    rows = []
    for listed in found:
        device = listed.device
        capability = ".".join(map(str, device.capability)) if device.capability else ""
        rows.append(
            [device.name, _plain(device.memory_gb), _total(listed), _plain(device.bandwidth_gbs),
             capability, device.product]
        )  # fmt: skip
    print_table(console, columns, rows)
    console.print(
        f"\n{format_count(len(found), 'device')}; ~ marks an estimate, blank: no source says"
    )


def page(console: Console, found: Sequence[Listed]) -> None:
    """Everything known about each device."""
    from kvplan.report.prose import hanging

    for number, listed in enumerate(found):
        if number:
            console.print()
        device, facts = listed.device, _facts(listed)
        count = f"{listed.number} x " if listed.number > 1 else ""
        console.print(f"{device.name}: {count}{device.product}", style="bold")
        driver = f"{device.driver_mib:,} MiB" if device.driver_mib else ""
        lines = [
            ("sold as", f"{device.memory_gb:g} GB" if device.memory_gb else ""),
            ("driver shows", driver),
            ("programs find", _span(listed)),
            ("bandwidth", f"{device.bandwidth_gbs:g} GB/s" if device.bandwidth_gbs else ""),
            ("rates", _rates(listed)),
            ("capability", facts["compute_capability"] or ""),
            ("NVLink", f"{device.nvlink_gbs:g} GB/s" if device.nvlink_gbs else ""),
            ("memory", "shared with the machine" if device.unified else ""),
            ("machines", ", ".join(listed.machines)),
            ("notes", device.notes),
            ("source", device.source),
        ]
        for label, text in lines:
            if text:
                hanging(console, f"{label:<15}", text)
    for notice in dict.fromkeys(notice for listed in found for notice in listed.notices):
        console.print()
        hanging(console, "note: ", notice)


def _span(listed: Listed) -> str:
    total = listed.device.total()
    if total is None:
        return "not known: give --gpu-memory"
    low, high = f"{total.low / GIB:.2f}", f"{total.high / GIB:.2f}"
    span = f"{low} GiB" if low == high else f"{low} to {high} GiB, about {total.mid / GIB:.2f}"
    return f"{span} ({total.origin.partition(': ')[2]})"


def _total(listed: Listed) -> str:
    total = listed.device.total()
    if total is None:
        return ""
    return f"{'' if listed.device.measured else '~'}{total.mid / GIB:.2f}"


def _rates(listed: Listed) -> str:
    device = listed.device
    rates = (("fp16", device.fp16_tflops), ("fp8", device.fp8_tflops))
    return ", ".join(f"{name} {rate:g} TFLOPS" for name, rate in rates if rate)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
