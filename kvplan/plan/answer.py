"""`kvplan fit` with a device: the budget, the plan at both of its ends, and the verdict.

    fits            the request fits what is left at least
    does-not-fit    it does not fit what is left at most, or the engine refuses it there
    only-if         in between: it fits if the estimated lines stay below a stated number of bytes

The plan at the lower end gives every figure of the answer; what the upper end adds stands beside
it. A second check holds the whole device against what it carries once graphs are captured and the
context is counted, which no line of the engine's budget has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.budget.vllm.ask import Asked, conditions_of, vllm_budget
from kvplan.budget.vllm.budget import (
    ACTIVATIONS,
    GRAPHS,
    KV,
    NON_TORCH,
    REQUESTED,
    RESERVE,
    TOTAL,
    WEIGHTS,
    Budget,
)
from kvplan.engines import find_engine
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.hardware.sets import Devices
from kvplan.load import LoadedModel
from kvplan.notice import Notice
from kvplan.plan.decode import Decode, decode_bound
from kvplan.plan.fit import Fit, fit
from kvplan.plan.levers import Lever, levers_of
from kvplan.plan.on_device import on_device
from kvplan.plan.ranks import Ranks, fewest
from kvplan.units import format_bytes

FITS, DOES_NOT_FIT, ONLY_IF = "fits", "does-not-fit", "only-if"
_STATES = "mamba-blocks-below-max-num-seqs"  # fewer blocks than sequences that keep a state


class OnlyIf(NamedTuple):
    """The condition of an open verdict: these lines together stay below that."""

    terms: tuple[str, ...]
    below_bytes: int


class Answer(NamedTuple):
    """The answer of `kvplan fit` with a device.

    Attributes:
        low, middle, high: the plan on what is left at least, likely and at most; the same where
            that is known or decides nothing.
        engine: the engine and release that were asked, as written.
        devices: the devices; None with `--gpu-memory` alone.
        budget: the lines of one rank.
        verdict: FITS, DOES_NOT_FIT or ONLY_IF.
        only_if: the condition of an open verdict.
        binding_limit: what decides.
        max_num_seqs: sequences of a step, above which no batch goes.
        max_batch, max_batch_high: sequences that fit at the asked context.
        ranks: fewest devices, and how the model is split over them.
        decode: the least time of one step.
        levers: what would free memory, by gain.
        notices: what the reader should know of the devices and the choice of ranks.
        newest: no release was named, so the newest was taken.
        explain: the page shows defaults and their sources.
    """

    low: Fit
    middle: Fit
    high: Fit
    engine: str
    devices: Devices | None
    budget: Budget
    verdict: str
    only_if: OnlyIf | None
    binding_limit: str | None
    max_num_seqs: int
    max_batch: int | None
    max_batch_high: int | None
    ranks: Ranks | None
    decode: Decode | None
    levers: tuple[Lever, ...]
    notices: tuple[Notice, ...]
    newest: bool = False
    explain: bool = False

    @property
    def fits(self) -> bool | None:
        """The verdict as a truth; None while it is open."""
        return {FITS: True, DOES_NOT_FIT: False}.get(self.verdict)

    @property
    def max_num_seqs_that_starts(self) -> int | None:
        """The largest max_num_seqs with which the engine would start, where that is the limit."""
        for found in (self.low, self.middle, self.high):
            refusal = found.plan.refusal
            if refusal is not None and refusal.code == _STATES:
                blocks = refusal.figures.get("num_blocks")
                return blocks if isinstance(blocks, int) and blocks > 0 else None
        return None

    @property
    def decisive(self) -> Fit:
        """The plan whose refusal counts: at its best where that is certain, else at its worst."""
        return self.high if self.verdict == DOES_NOT_FIT else self.low


def answer(
    model: LoadedModel,
    request: Request,
    devices: Devices,
    version: str,
    asked: Asked,
    specs: Sequence[str] | None = None,
) -> Answer:
    """Hold a request against a device.

    Args:
        model: the model.
        request: the request, its options in the engine's names.
        devices: the devices of one replica.
        version: vLLM's release.
        asked: what the user knows.
        specs: folders of the user's own specs.

    Raises:
        KvplanError: a device or weights that are not known, or a request that cannot be answered.
    """
    device = devices.smallest
    engine = f"vllm@{version}"
    request = find_engine(engine)[0].settled(request)
    rules, _ = rules_of(version)
    request, notices = on_device(request, devices, rules, asked.total or device.total())
    budget = vllm_budget(model.spec, request, version, device, asked)
    left = budget.available
    low = fit(model, request, left.low, engine, specs)
    high = low if left.exact else fit(model, request, left.high, engine, specs)
    low = low._replace(warnings=tuple(one for one in low.warnings if one.id != "tiny-memory"))
    states = high.plan.refusal is not None
    middle = fit(model, request, left.mid, engine, specs) if states else low
    given = conditions_of(model.spec, low.request, rules, device, version)
    verdict = _verdict(low, high, left.high, uncertain=given.uncertain)
    seqs = given.sequences
    found = Answer(
        low=low,
        middle=middle,
        high=high,
        engine=engine,
        devices=devices,
        budget=budget,
        verdict=verdict,
        only_if=_only_if(budget, low) if verdict == ONLY_IF else None,
        binding_limit=None,
        max_num_seqs=seqs,
        max_batch=_at_most(low.max_batch_at_ctx, seqs),
        max_batch_high=_at_most(high.max_batch_at_ctx, seqs),
        ranks=fewest(model, low.request, device, version, asked, specs),
        decode=decode_bound(model.spec, low, budget, device, given),
        levers=levers_of(model, low, budget, given, device, version, asked, specs),
        notices=(*notices, *_beyond(budget), *_batch_notices(low, seqs)),
    )
    return found._replace(binding_limit=_binding(found))


def _verdict(low: Fit, high: Fit, most: int, *, uncertain: bool) -> str:
    if not high.fits:
        return DOES_NOT_FIT if most <= 0 or not uncertain else ONLY_IF
    return FITS if low.fits and not uncertain else ONLY_IF


def _only_if(budget: Budget, low: Fit) -> OnlyIf:
    """What the estimated lines may take at most for the request to fit."""
    names = dict(budget.lines)
    if REQUESTED not in names:
        return OnlyIf((KV,), low.needed_bytes or 0)
    open_ = tuple(name for name in (ACTIVATIONS, NON_TORCH, GRAPHS) if not names[name].exact)
    if not names[WEIGHTS].exact and not open_:
        open_ = (WEIGHTS,)
    below = names[REQUESTED].mid - (low.needed_bytes or 0)
    for name in (WEIGHTS, ACTIVATIONS, NON_TORCH, GRAPHS, RESERVE):
        if name in names and name not in open_:
            below -= names[name].mid
    return OnlyIf(open_ or (KV,), below)


def _beyond(budget: Budget) -> list[Notice]:
    """A warning that the device may run out of memory although the pool fits."""
    peak, total = budget.peak, budget.line(TOTAL)
    if peak.mid <= total.low or not total.high:
        return []
    late = format_bytes(max(peak.mid - budget.line(REQUESTED).mid, 0))
    message = (
        f"the requested {format_bytes(budget.line(REQUESTED).mid)} and {late} of graphs and context"
        f" that the budget does not count come to {format_bytes(peak.mid)} of"
        f" {format_bytes(total.mid)}: capture can run out of memory; a lower"
        " --gpu-memory-utilization leaves room"
    )
    return [Notice("graphs-beyond-device", message)]


def _batch_notices(low: Fit, seqs: int) -> list[Notice]:
    found = []
    if low.request.batch > seqs:
        message = (
            f"a step holds at most max_num_seqs {seqs:,} sequences, so {low.request.batch:,} never"
            " run at once; --max-num-seqs raises it"
        )
        found.append(Notice("batch-above-max-num-seqs", message))
    if low.request.dp > 1:
        message = (
            f"batch and sequences are of one of {low.request.dp} replicas; the deployment holds"
            f" {low.request.dp} times as many"
        )
        found.append(Notice("batch-per-replica", message))
    return found


def _at_most(batch: int | None, seqs: int) -> int:
    return seqs if batch is None else min(batch, seqs)


def _binding(found: Answer) -> str | None:
    """The limit that decides: of a request that fits, what ends its growth."""
    low = found.low
    if found.budget.available.high <= 0:
        return "weights"
    plan = found.decisive.plan
    refusal = plan.refusal
    if refusal is not None and refusal.code == _STATES:
        return "state_blocks"
    if refusal is not None and "divisible" in refusal.code:
        return "heads"
    if found.verdict == FITS and low.max_batch_at_ctx is not None:
        if low.max_batch_at_ctx >= found.max_num_seqs:
            return "max_num_seqs"
        return "available_bytes"
    return low.binding_limit
