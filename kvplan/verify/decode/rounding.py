"""What one round through a format costs a vector: half a step at most, and not much less.

The comparison with recomputed logits rounds on both sides, so a mistake in a format's own
arithmetic (a scale from the wrong group, half the codes unused) would cancel out there. Here it
shows.
"""

from __future__ import annotations

import torch

from kvplan.checks import Check
from kvplan.dtypes import DType
from kvplan.spec.recurrent import RecurrentState
from kvplan.verify.decode.facts import column_format, columns_of, matrix_format, matrix_of
from kvplan.verify.decode.formats import format_of
from kvplan.verify.decode.kept import pieces_of, vectors_of
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.storage import Fixed
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


def states_keep_precision(layout: Layout, seed: int, device: str) -> list[Check]:
    """One check per kind of recurrent state: what comes back is as exact as the model says.

    The format is the spec's word (float32 where it has none), not the planner's: a matrix that is
    kept in 16 bits where the model needs 32 would round alike with a cache and without.
    """
    found: dict[str, Check] = {}
    for state in layout.spec.states():
        if not isinstance(state, RecurrentState) or state.kind in found:
            continue
        said = [column_format(state, layout.dtypes)] if columns_of(state) else []
        said += [matrix_format(state)] if matrix_of(state) else []
        store = Fixed(pieces_of(state, layout.dtypes), 2, device)
        drawn = [Weights(seed, device).normal(*piece.shape) for piece in store.pieces]
        store.write(drawn)
        errors, limits = [], []
        for name, value, back in zip(said, drawn, store.read(), strict=True):
            errors.append(float(((back - value) / value.abs().clamp_min(1e-6)).abs().max()))
            limits.append(0.0 if name == "float32" else float(_finfo(name).eps) / 2)
        found[state.kind] = Check(
            name=f"rounding_of_state[{state.kind}]",
            predicted=", ".join(f"<= {limit:.3g}" for limit in limits),
            measured=max(errors),
            difference=None,
            tolerance=None,
            ok=all(
                (limit / 4 <= error <= limit * _SLACK) if limit else error == 0
                for error, limit in zip(errors, limits, strict=True)
            ),
            why=f"largest relative error of {' and '.join(said)}, as the model says its columns and"
            " matrix are kept, once stored and read back",
            unit="of the value",
        )
    return list(found.values())


def _finfo(name: str) -> torch.finfo:
    return torch.finfo(getattr(torch, name))


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
