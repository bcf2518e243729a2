"""Attention operations, counted as they run, against the formulas of `explain`; and the time.

The transformer generates n tokens from nothing: with a cache, step t scores the new token against
t; without one, it scores all t against all t again. Operations are counted by torch from the shapes
of the matrix products inside scaled_dot_product_attention, and divided by what one score costs: per
head 2 x (elements of K + elements of V).

    with a cache    sum(t)   = n (n + 1) / 2            a window keeps step t at min(t, window)
    without         sum(t^2) = n (n + 1) (2n + 1) / 6   masked scores included

Time is another thing. It holds the projections and the feed-forward of every repeated token, and in
steps as small as these mostly the cost of starting an operation. It is shown, never compared.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import torch
from torch.utils.flop_counter import FlopCounterMode

from kvplan.checks import Check, compare, undecided
from kvplan.plan.explain import generation
from kvplan.spec.recurrent import RecurrentState
from kvplan.verify.decode.attention import CrossAttention, HeadAttention
from kvplan.verify.decode.cut import BATCH
from kvplan.verify.decode.equality import Run
from kvplan.verify.decode.kept import first_visible
from kvplan.verify.decode.latent import MultiHeadLatent
from kvplan.verify.decode.layouts import Layout
from kvplan.verify.decode.reference import Reference

STEPS = 16  # tokens generated


def counted(model: Reference, run: Run, layout: Layout, device: str) -> list[Check]:
    """attention_operations with a cache and without, the measured time beside each."""
    mixers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, HeadAttention | MultiHeadLatent)
        and not isinstance(module, CrossAttention)
    }
    # A state is walked one token at a time here; how long that takes says nothing of a kernel.
    recurrent = any(isinstance(state, RecurrentState) for state in model.spec.states())
    found = []
    for cached in (True, False):
        counter = FlopCounterMode(display=False)
        with counter:
            _generate(model, run, layout, device, cached=cached)
        flops = counter.get_flop_counts()
        beside = ""
        if not recurrent:
            time = _time(model, run, layout, device, cached=cached)
            beside = (
                f"; beside it, another thing: {time * 1000:.3g} ms per token of the whole"
                " transformer"
            )
        if mixers:
            checks = _operations(mixers, flops, cached=cached)
        else:
            checks = [undecided(_name(cached), "no layer scores tokens against each other")]
        found += [replace(check, why=check.why + beside) for check in checks]
    return found


def _name(cached: bool, window: bool = False) -> str:
    label = "with a cache" if cached else "without a cache"
    return f"attention_operations[{label}{', window' if window else ''}]"


def _generate(model: Reference, run: Run, layout: Layout, device: str, *, cached: bool) -> None:
    """Generate `STEPS` tokens from nothing."""
    cache = layout.cache(STEPS, device) if cached else None
    for t in range(STEPS):
        if cache is not None:
            model(run.tokens[:, t : t + 1], t, cache)
        else:
            model(run.tokens[:, : t + 1], 0, layout.nothing())


def _operations(
    mixers: dict[str, HeadAttention | MultiHeadLatent],
    flops: dict[str, dict[object, int]],
    *,
    cached: bool,
) -> list[Check]:
    """One check per count that the formulas predict: layers with a short window have their own."""
    groups: dict[int, list[int]] = {}  # predicted -> measured, layer by layer
    for name, mixer in mixers.items():
        total = sum(flops[f"Reference.{name}.core"].values())
        score = 2 * BATCH * mixer.heads * mixer.score_dims[cached]
        # A count that is not whole is no count of scores: -1 agrees with no formula.
        measured = total // score if total % score == 0 else -1
        groups.setdefault(_formula(mixer, cached=cached), []).append(measured)
    found = []
    for predicted, counts in groups.items():
        full = generation(STEPS)
        window = predicted not in (full.with_cache, full.without_cache)
        odd = [one for one in counts if one != predicted]
        layers = f"{len(counts)} layers" if len(counts) > 1 else "1 layer"
        why = (
            f"scores per head and layer to generate {STEPS} tokens, counted in {layers}:"
            f" {'sum(t)' if cached else 'sum(t^2)'}"
        )
        measured = odd[0] if odd else predicted
        found.append(compare(_name(cached, window), predicted, measured, why, unit="scores"))
    return found


def _formula(mixer: HeadAttention | MultiHeadLatent, *, cached: bool) -> int:
    """Scores per head that generating `STEPS` tokens takes."""
    if not cached:
        return generation(STEPS).without_cache
    if all(first_visible(mixer.state, t) == 0 for t in range(STEPS)):
        return generation(STEPS).with_cache
    return sum(t + 1 - first_visible(mixer.state, t) for t in range(STEPS))


def _time(model: Reference, run: Run, layout: Layout, device: str, *, cached: bool) -> float:
    """Seconds per token."""
    _wait(device)
    begin = perf_counter()
    _generate(model, run, layout, device, cached=cached)
    _wait(device)
    return (perf_counter() - begin) / STEPS


def _wait(device: str) -> None:
    """Wait until a device has done what it was told; the CPU has nothing to wait for."""
    kind = torch.device(device).type
    if kind != "cpu":
        getattr(torch, kind).synchronize()
