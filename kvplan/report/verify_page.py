"""The page of `kvplan verify`: what was allocated where, one line per check, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan.report.console import Column
from kvplan.report.headings import asked
from kvplan.report.prose import hanging, warnings
from kvplan.report.tables import print_table
from kvplan.report.verification import verdict
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes, format_count

if TYPE_CHECKING:
    from kvplan.checks import Check, Verification
    from kvplan.report.console import Console

_LONGEST_WORD = 30
_LONGEST_WHY = 140  # longer ones read better across the page, below the table
_COLUMNS = (
    Column("check"),
    Column("predicted", "right"),
    Column("measured", "right"),
    Column("difference", "right"),
    Column("tolerance", "right", 3),
    Column(""),
    Column("what it is", rank=2, least=30),
)


def page(console: Console, found: Verification) -> None:
    """Print the whole page."""
    _heading(console, found)
    for note in found.notes:
        hanging(console, "note: ", note, style="yellow")
    several = len(found.ranks) > 1
    if several:
        _ranks(console, found)
        console.print("\nall ranks together", style="bold")
    else:
        console.print()
    below = console.width < 100 or any(len(check.why) > _LONGEST_WHY for check in found.checks)
    rows = [_row(check) for check in found.checks]
    if below:
        print_table(console, _COLUMNS[:-1], [row[:-1] for row in rows])
    else:
        print_table(console, _COLUMNS, rows)
    told = [check for check in found.checks if below or not check.ok]
    for why in dict.fromkeys(check.why for check in told):
        names = ", ".join(check.name for check in told if check.why == why)
        failed = any(check.ok is False for check in told if check.why == why)
        console.print()
        hanging(console, f"{names}: ", why, style="red" if failed else "")
    console.print()
    console.print(_summary(found.checks, found.ok), style="bold green" if found.ok else "bold red")
    warnings(console, found.size.warnings if found.size else ())


def _heading(console: Console, found: Verification) -> None:
    size, layout, device = found.size, found.layout, found.device
    if size is not None:
        spec = size.model.spec
        about = f"{attention_label(spec)}; {asked(spec, size.logical)}"
        hanging(console, f"{size.model.title}: ", about)
    if layout is not None:
        tensors = sum(len(rank.tensors) for rank in layout.ranks)
        basis = f"{layout.engine} {layout.version}".strip()
        console.print(
            f"layout  {basis}: {format_count(tensors, 'tensor')}, {format_bytes(layout.bytes)}"
            f" ({layout.bytes:,} bytes)"
        )
    if "type" in device:
        free = device.get("free_bytes")
        memory = f", {format_bytes(free)} free before" if free is not None else ""
        console.print(
            f"device  {device['type']}: {device['name']}, torch {device['torch']}{memory}"
        )
    elif device:
        told = (device[name] for name in ("engine", "version") if device.get(name))
        console.print(f"running engine  {' '.join(map(str, told))}, from {device.get('source')}")


def _ranks(console: Console, found: Verification) -> None:
    console.print()
    columns = (Column("rank", "right"), *_COLUMNS[:-1])
    rows = [
        (str(report.rank), *_row(check)[:-1]) for report in found.ranks for check in report.checks
    ]
    print_table(console, columns, rows)


def _row(check: Check) -> tuple[str, ...]:
    figures = (check.predicted, check.measured, check.difference, check.tolerance)
    return (check.name, *map(_figure, figures), verdict(check), _breakable(check.why))


def _breakable(text: str) -> str:
    """The text with very long words (paths in messages) cut, which would widen the column."""
    words = text.split(" ")
    return " ".join(w if len(w) <= _LONGEST_WORD else f"{w[: _LONGEST_WORD - 3]}..." for w in words)


def _figure(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _summary(checks: Sequence[Check], ok: bool | None) -> str:
    if ok is None:
        return "nothing could be compared, so there is no verdict"
    failed = sum(check.ok is False for check in checks)
    open_ = sum(check.ok is None for check in checks)
    passed = len(checks) - failed - open_
    parts = [f"{passed} of {len(checks)} checks"]
    parts += [f"{failed} failed"] * bool(failed) + [f"{open_} could not be decided"] * bool(open_)
    said = "agrees" if ok else "does not agree"
    return f"{said}{' as far as can be told' if ok and open_ else ''}: {', '.join(parts)}"
