"""Cached logits against those without a cache, and the same comparison on damaged storage.

A prompt in two pieces, then token by token: what a server does. Without a cache the same
transformer reads the whole sequence at once. Both see the same tokens, so the logits of every
position can be compared; the figure is the largest difference over the spread (standard deviation)
of the logits.

Tolerances. float32: 1e-4; sums in another order differ by about 1e-5. Formats that round: 1e-4 and
one rounding error of a value of unit size, at most 0.05. Both sides round what they store, yet a
value that lies between two codes may fall to either side after a sum in another order, and moves
the logits a little. A damaged block must exceed the tolerance `FAR`-fold.
"""

from __future__ import annotations

from math import inf, isfinite

import torch
from torch import Tensor

from kvplan.checks import Check
from kvplan.named_tuple import NamedTuple
from kvplan.spec.states import State
from kvplan.verify.decode import damage
from kvplan.verify.decode.cut import BATCH
from kvplan.verify.decode.kept import span_of
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.memory import Cache, Memory
from kvplan.verify.decode.reference import VOCABULARY, Reference
from kvplan.verify.decode.weights import Weights

STRICT = 1e-4
LOOSEST = 0.05
FAR = 10
SHORTEST = 45  # tokens: three blocks of 16, the last one not full
_DECODED = 11
_BEYOND = 6  # of them lie behind the last end of a window or chunk
_AFTER_DAMAGE = 1  # token decoded through damaged storage: the one that sees the oldest entry


class Run(NamedTuple):
    """The tokens of the proof, and how they are cut into steps.

    Attributes:
        tokens: (batch, n) ids.
        pieces: tokens per step: the prompt in two, then one at a time.
    """

    tokens: Tensor
    pieces: tuple[int, ...]


def length_of(states: list[State]) -> int:
    """Tokens of a run: the longest window or chunk is crossed three times, the last time by single
    tokens; a run without any is as long as three blocks that are not quite full."""
    span = max((one for state in states if (one := span_of(state)) is not None), default=0)
    if not span:
        return SHORTEST
    crossings = max(3, -(-(SHORTEST - _BEYOND) // span))
    return crossings * span + _BEYOND


def new_run(length: int, seed: int, device: str) -> Run:
    """Tokens drawn by lot; the first piece of the prompt is half of all, so longer than a window
    that is crossed three times, and the second starts in the middle of a block."""
    prompt = length - _DECODED
    first = prompt // 2 | 1
    tokens = Weights(seed + 1, device).tokens(BATCH, length, VOCABULARY)
    return Run(tokens, (first, prompt - first, *[1] * _DECODED))


def decode(model: Reference, run: Run, memory: Memory, *, skip: int = 0) -> Tensor:
    """Logits (batch, n, vocabulary) of the run step by step, without the first `skip` tokens."""
    at, logits = 0, []
    for many in run.pieces:
        if at >= skip:
            logits.append(model(run.tokens[:, at : at + many], at, memory))
        at += many
    return torch.cat(logits, dim=1)


def compared(
    model: Reference, run: Run, layout: Layout, whole: Tensor, exact: Tensor, device: str
) -> list[Check]:
    """The checks of one layout; `whole`: its logits without a cache, `exact`: those in float32."""
    length, spread = run.tokens.shape[1], float(whole.std())
    held = length - _AFTER_DAMAGE
    cache = layout.cache(length, device)
    before = decode(model, Run(run.tokens[:, :held], run.pieces[:-_AFTER_DAMAGE]), cache)
    kept = cache.copy()
    after = decode(model, run, cache, skip=held)
    worst = _distance(torch.cat((before, after), dim=1), whole, spread)
    tolerance = tolerance_of(layout)
    steps = f"a prompt in two pieces, then {_DECODED} tokens one by one, {length:,} in all"
    moved = "" if layout.exact else _moved(whole, exact)
    equal = Check(
        name="cached_equals_recomputed",
        predicted=0.0,
        measured=_figure(worst),
        difference=worst if isfinite(worst) else None,
        tolerance=tolerance,
        ok=worst <= tolerance,
        why=f"largest difference of the logits over their spread: {steps}{moved}",
        unit="of the logits' spread",
    )
    return [equal, _control(model, run, layout, kept, whole[:, held:], spread)]


def tolerance_of(layout: Layout) -> float:
    """The largest difference that still agrees, as a share of the logits' spread."""
    if layout.exact:
        return STRICT
    return STRICT + min(LOOSEST, max(layout.unit_errors))


def _moved(whole: Tensor, exact: Tensor) -> str:
    share = _distance(whole, exact, float(exact.std()))
    return f"; both round alike, which itself moves the logits by up to {share:.2g} against float32"


def _distance(one: Tensor, other: Tensor, spread: float) -> float:
    """Largest difference over the spread; infinite where a logit is no number."""
    largest = float((one - other).abs().max()) / spread
    return largest if isfinite(largest) else inf


def _figure(distance: float) -> float | str:
    """A distance as reports can print it."""
    return distance if isfinite(distance) else "not a number"


def _control(
    model: Reference, run: Run, layout: Layout, kept: Cache, whole: Tensor, spread: float
) -> Check:
    """Each piece damaged alone; the one that shows least decides."""
    found: list[tuple[float, str]] = []
    held = run.tokens.shape[1] - _AFTER_DAMAGE
    for one in damage.damages(layout, held):
        cache = kept.copy()
        damage.apply(cache, one)
        logits = decode(model, run, cache, skip=held)
        found.append((_distance(logits, whole, spread), f"{one.where} ({one.what})"))
    least, where = min(found)
    tolerance = tolerance_of(layout)
    return Check(
        name="negative_control",
        predicted=f"> {FAR * tolerance:.3g}",
        measured=_figure(least),
        difference=None,
        tolerance=tolerance,
        ok=least > FAR * tolerance,
        why=f"must exceed {FAR} x the tolerance: {len(found)} pieces that are read, damaged one by"
        f" one; the least visible is {where}: {least / tolerance:,.0f} x the tolerance",
        unit="of the logits' spread",
    )
