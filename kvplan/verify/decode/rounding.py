"""What one round through a format costs a vector: half a step at most, and not much less.

The comparison with recomputed logits rounds on both sides, so a mistake in a format's own
arithmetic (a scale from the wrong group, half the codes unused) would cancel out there. Here it
shows.
"""

from __future__ import annotations

from kvplan.checks import Check
from kvplan.dtypes import DType
from kvplan.verify.decode.formats import format_of
from kvplan.verify.decode.kept import vectors_of
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.weights import Weights

_ROWS = 64
_SLACK = 1.01  # the scale itself is rounded


def rounding(layout: Layout, seed: int, device: str) -> list[Check]:
    """One check per format that is stored and rounds."""
    shapes: dict[DType, list[tuple[int, int]]] = {}
    for state in layout.spec.states():
        for dtype, one in zip(_dtypes(layout), vectors_of(state, layout.dtypes), strict=False):
            shapes.setdefault(dtype, []).append((one.heads, one.dim))
    rounds = {dtype: found for dtype, found in shapes.items() if dtype.name != "float32"}
    return [_check(dtype, found, seed, device) for dtype, found in rounds.items()]


def _dtypes(layout: Layout) -> tuple[DType, DType]:
    return layout.dtypes.k, layout.dtypes.v


def _check(dtype: DType, shapes: list[tuple[int, int]], seed: int, device: str) -> Check:
    format_, worst = format_of(dtype), 0.0
    for count, dim in dict.fromkeys(shapes):
        rows = Weights(seed, device).normal(_ROWS, count, dim)
        error = (format_.round(rows) - rows).abs() / format_.largest(rows)
        worst = max(worst, float(error.max()))
    limit = format_.half_step
    return Check(
        name=f"rounding_of_format[{dtype.name}]",
        predicted=f"<= {limit:.3g}",
        measured=worst,
        difference=None,
        tolerance=None,
        ok=limit / 4 <= worst <= limit * _SLACK,
        why="largest error of one round through the format, as a share of the largest value that"
        " shares its scale: half a step, or a little less",
        unit="of the largest value",
    )
