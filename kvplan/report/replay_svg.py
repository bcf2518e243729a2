"""The time line as a picture: used blocks and requests over steps, byte-equal over runs.

Two fields under one clock: blocks above, requests below. Labels stand at the line's end in its
colour, so there is no legend; a grey rule is the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.replay.report import Report

_WIDE, _HIGH = 720, 460
_LEFT, _RIGHT = 66, 560
_UPPER, _LOWER = (62, 242), (272, 402)  # top and bottom of the fields
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#17a07a"
_INK, _GREY, _PALE = "#1d1d1f", "#6b6b70", "#c7c7cc"
_FONT = "Helvetica,Arial,Liberation Sans,DejaVu Sans,sans-serif"


def picture(found: Report) -> str:
    """The SVG text."""
    points, pool, meters = found.meters.line.points, found.pool, found.meters
    request, usable = found.request, found.pool["usable_blocks"]
    title = f"{found.model['name']} on {request['engine']} {request['engine_version']}"
    every = f"every {meters.line.every} steps, " if meters.line.every > 1 else ""
    about = (
        f"{meters.requests:,} requests, {meters.preemptions:,} preemptions; pool of {usable:,}"
        f" blocks, {format_bytes(pool['num_blocks'] * pool['bytes_per_block'])} of one rank;"
        f" {every}no claim about seconds"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}"'
        f' height="{_HIGH}" role="img" aria-label="{escape(title)}" font-family="{_FONT}"'
        f' font-size="12" fill="{_INK}"><title>{escape(title)}</title><desc>{escape(about)}</desc>'
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#fff"/>',
        _text(14, 24, title, size=15, weight=600),
        _text(14, 42, about, colour=_GREY, size=11),
    ]
    if points:
        clocks = [point[0] for point in points]
        blocks = [point[3] for point in points]
        shown = [
            name
            for name, place in (("running", 1), ("waiting", 2))
            if max(p[place] for p in points)
        ]
        parts += _field(_UPPER, clocks, usable, [(blocks, "blocks used", _BLUE)])
        series = [
            ([point[1 if name == "running" else 2] for point in points], name,
             _GREEN if name == "running" else _ORANGE)
            for name in shown
        ]  # fmt: skip
        highest = max((max(values) for values, _, _ in series), default=1)
        parts += _field(_LOWER, clocks, highest, series)
        parts += _clock(clocks)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _field(
    field: tuple[int, int],
    clocks: Sequence[int],
    whole: int,
    series: Sequence[tuple[Sequence[int], str, str]],
) -> list[str]:
    top, bottom = field
    parts = []
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        parts.append(_path(f"M{_LEFT} {y:.1f}L{_RIGHT} {y:.1f}", _PALE))
        parts.append(_text(_LEFT - 6, y + 4, f"{round(whole * share):,}", colour=_GREY,
                           anchor="end", size=11))  # fmt: skip
    labels: list[tuple[float, str, str]] = []
    for values, name, colour in series:
        ys = [bottom - value / whole * (bottom - top) for value in values]
        xs = [_x(clock, clocks) for clock in clocks]
        steps = "".join(
            f"{'M' if not place else 'L'}{x:.1f} {y:.1f}"
            for place, (x, y) in enumerate(zip(xs, ys, strict=True))
        )
        parts.append(_path(steps, colour, wide=1.6))
        labels.append((ys[-1], f"{name}, at most {max(values):,}", colour))
    labels.sort()
    free = float(top)
    for y, name, colour in labels:
        y = max(y, free)
        free = y + 15
        parts.append(_text(_RIGHT + 8, y + 4, name, colour=colour))
    return parts


def _clock(clocks: Sequence[int]) -> list[str]:
    y = _LOWER[1] + 18
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        clock = round(clocks[0] + share * (clocks[-1] - clocks[0]))
        word = f"step {clock:,}" if share == 1 else f"{clock:,}"
        anchor = "start" if not share else "end" if share == 1 else "middle"
        parts.append(_text(_x(clock, clocks), y, word, colour=_GREY, size=11, anchor=anchor))
    return parts


def _x(clock: int, clocks: Sequence[int]) -> float:
    span = max(1, clocks[-1] - clocks[0])
    return _LEFT + (clock - clocks[0]) / span * (_RIGHT - _LEFT)


def _path(steps: str, colour: str, *, wide: float = 1) -> str:
    return (
        f'<path d="{steps}" fill="none" stroke="{colour}" stroke-width="{wide}"'
        ' stroke-linejoin="round"/>'
    )


def _text(
    x: float, y: float, text: str, *, colour: str = _INK, size: int = 12, weight: int = 400,
    anchor: str = "start",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}"'
        f' text-anchor="{anchor}">{escape(text)}</text>'
    )
