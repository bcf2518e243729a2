"""The page of `kvplan replay`: what ran, how full the pool was, who waited, and the time line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.report.console import Column
from kvplan.report.prose import hanging, warnings
from kvplan.report.tables import print_table
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.replay.report import Report
    from kvplan.report.console import Console

_WIDTH = 60  # characters of the time line
_LEVELS, _ASCII_LEVELS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_LABEL = 12


def page(console: Console, found: Report) -> None:
    """Print the whole page."""
    request, pool, meters = found.request, found.pool, found.meters
    about = (
        f"{request['engine']} {request['engine_version']}, {request['kv_cache_dtype']} cache,"
        f" prefix caching {'on' if request['prefix_caching'] else 'off'}; steps are the clock"
    )
    hanging(console, f"{found.model['name']}: ", about)
    console.print()
    size = pool["bytes_per_block"]
    _line(console, "pool", f"{pool['usable_blocks']:,} blocks for requests of"
          f" {request['block_size']} tokens, {format_bytes(pool['num_blocks'] * size)} of one rank"
          )  # fmt: skip
    left = f", {found.left_out:,} left out" if found.left_out else ""
    _line(console, "requests", f"{meters.requests:,} finished in {meters.steps:,} steps{left}")
    if meters.steps:
        _occupancy(console, found)
    lost = f", {meters.recomputed_tokens:,} tokens computed again" if meters.preemptions else ""
    _line(console, "preempted", f"{meters.preemptions:,} times{lost}")
    if meters.queries:
        share = meters.hits / meters.queries
        own = f", {meters.preempted_hits:,} of preempted ones" if meters.preempted_hits else ""
        _line(console, "found again",
              f"{meters.hits:,} of {meters.queries:,} prompt tokens ({share:.1%}){own}"
              )  # fmt: skip
    _steps(console, "waiting", meters.wait_steps.summary())
    _steps(console, "first token", meters.first_token_steps.summary())
    if found.smallest_pool is not None:
        _line(console, "pool needed",
              f"{found.smallest_pool:,} blocks ({format_bytes(found.smallest_pool * size)})"
              " change nothing"
              )  # fmt: skip
    if found.estimate is not None:
        _estimate(console, found.estimate)
    _time_line(console, found)
    _rows(console, found.scan, "other pools")
    if found.scan:
        least = found.no_preemption_from
        grid = f"{len(found.scan)} pools tried"
        if least is None:
            console.print(f"somebody is preempted in the largest of the {grid}")
        else:
            console.print(f"no preemption from {least:,} blocks on, as far as the {grid} show")
    _rows(console, found.what_if, "other options")
    warnings(console, found.notices)
    if found.partial is not None:
        console.print()
        hanging(console, "partial: ", found.partial, style="bold red")


def _occupancy(console: Console, found: Report) -> None:
    meters, usable = found.meters, found.pool["usable_blocks"]
    occupied = found.occupancy()
    running = meters.running_steps / meters.steps
    _line(console, "running", f"{running:,.1f} on average, {meters.peak_running:,} at most;"
          f" {meters.peak_waiting:,} waiting at most")  # fmt: skip
    _line(console, "pool used", f"{occupied['mean']:.1%} on average, {occupied['p99']:.1%} in 99 %"
          f" of all steps, {meters.peak_blocks / usable:.1%} at most"
          f" ({meters.peak_blocks:,} blocks, {format_bytes(occupied['peak_bytes'])})"
          )  # fmt: skip


def _steps(console: Console, label: str, summary: Mapping[str, int] | None) -> None:
    if summary is None:
        return
    text = f"{summary['p50']:,} steps in the middle, {summary['p99']:,} of 99 %"
    _line(console, label, f"{text}, {summary['max']:,} at most")


def _estimate(console: Console, estimate: Mapping[str, Any]) -> None:
    if estimate["mean_blocks"] is None:
        _line(console, "estimate", "none: requests without a time have no mean")
        return
    _line(console, "estimate", f"{estimate['mean_blocks']:,.1f} blocks on average"
          f" ({estimate['mean_share']:.1%}), {estimate['mean_running']:,.1f} running;"
          f" {estimate['warning']}")  # fmt: skip


def _time_line(console: Console, found: Report) -> None:
    points = found.meters.line.points
    if len(points) < 2:
        return
    console.print()
    usable = found.pool["usable_blocks"]
    for label, place, whole in (
        ("running", 1, max(point[1] for point in points)),
        ("waiting", 2, max(point[2] for point in points)),
        ("blocks", 3, usable),
    ):
        bars = _bars([point[place] for point in points], whole)
        console.print(f"{label:<{_LABEL}}{bars}  of {whole:,}")
    console.print(f"{'step':<{_LABEL}}{points[0][0]:<{_WIDTH - 8}}{points[-1][0]:>8}")


def _bars(values: Sequence[int], whole: int) -> str:
    """One character for each part of the run, as high as its largest value."""
    levels = _LEVELS if _shows_blocks() else _ASCII_LEVELS
    count = len(values)
    width = min(_WIDTH, count)
    tops = [
        max(values[place * count // width : (place + 1) * count // width]) for place in range(width)
    ]
    most = len(levels) - 1
    return "".join(levels[-(-top * most // whole) if whole else 0] for top in tops)


def _shows_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        _LEVELS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    if not rows:
        return
    console.print()
    console.print(title, style="bold")
    names = [name for name in rows[0] if name not in ("stuck", "steps", "refused")]
    columns = [
        Column(name.replace("_", " "), "left" if name == "option" else "right") for name in names
    ]
    print_table(console, columns, [[_cell(row, name) for name in names] for row in rows])


def _cell(row: Mapping[str, Any], name: str) -> str:
    if row.get("refused") and name == "preemptions":
        return "refused"
    if row["stuck"] is not None and name not in ("option", "num_blocks"):
        return "stuck"
    value = row[name]
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _line(console: Console, label: str, text: str) -> None:
    hanging(console, f"{label:<{_LABEL}}", text)
