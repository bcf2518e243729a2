"""The sums that a log states itself: requested memory less what is used is what the cache gets.

    V0            total x share - weights - non-torch - activation peak
    0.6 (V0)      total x share - peak of torch (weights inside) - non-torch
    V1, 0.10 on   requested - weights - activation peak - non-torch; CUDA graphs are not subtracted

Every term is printed with its own rounding, so the tolerance is the sum of their halves. No model
is needed for it. Source: vllm 0.6.3 worker/worker.py, 0.8.5 worker/worker.py, 0.11.0
v1/worker/gpu_worker.py.
"""

from __future__ import annotations

from kvplan.checks import Check
from kvplan.running import seen as s
from kvplan.running.printed import Printed
from kvplan.running.seen import OUTCOMES, Seen
from kvplan.units import GIB


def budget_checks(seen: Seen) -> list[Check]:
    """The log's own arithmetic, as far as it prints the terms."""
    terms, found = seen.terms, []
    total, share, requested = terms.get("total"), terms.get("share"), terms.get("requested")
    product = rounding = None
    if total is not None and share is not None:
        product = total.value * share.value
        rounding = total.step / 2 * share.value + share.step / 2 * total.value
    if product is not None and rounding is not None and requested is not None:
        found.append(
            _check("requested_bytes", product, requested.value, rounding + requested.step / 2,
                   "total memory x gpu_memory_utilization")
        )  # fmt: skip
    available = seen.figures.get(s.AVAILABLE)
    used = [terms[name] for name in ("weights", "activation", "non_torch") if name in terms]
    if available is None or len(used) < 2 or "activation" not in terms:
        return found
    if requested is not None:
        base, slack = requested.value, requested.step / 2
    elif product is not None and rounding is not None:
        base, slack = product, rounding
    else:
        return found
    predicted = base - sum(term.value for term in used)
    slack += sum(term.step / 2 for term in used) + available.step / 2
    names = "weights, activation peak and non-torch memory"
    if "weights" not in terms:
        names = "torch's peak (weights inside) and non-torch memory"
    found.append(
        _check("available_bytes", predicted, available.value, slack, f"requested less {names}")
    )
    return found


def _check(name: str, predicted: float, measured: float, slack: float, why: str) -> Check:
    difference = measured - predicted
    return Check(
        name=name,
        predicted=round(predicted * GIB),
        measured=round(measured * GIB),
        difference=round(difference * GIB),
        tolerance=round(slack * GIB),
        ok=abs(difference) <= slack + 1e-9,
        why=f"{why}; the tolerance is the sum of the printed roundings",
        unit="B",
    )


def bare_checks(seen: Seen) -> list[Check]:
    """What can be held against itself without a model: tokens, concurrency, length, no memory."""
    capacity, concurrency = seen.figures.get(s.CAPACITY), seen.figures.get(s.CONCURRENCY)
    blocks, size = seen.figures.get(s.BLOCKS), seen.figures.get(s.BLOCK_SIZE)
    length = seen.facts.get("max_model_len")
    found: list[Check] = []
    if capacity is not None and concurrency is not None and length and length.value.isdigit():
        found.append(_tokens_by_concurrency(capacity, concurrency, int(length.value)))
    if capacity is not None and blocks is not None and size is not None:
        predicted = int(blocks.value * size.value)
        why = "blocks x block size, as for one group of full attention"
        found.append(_tokens(predicted, capacity, 0, predicted == capacity.value, why))
    available = seen.figures.get(s.AVAILABLE)
    if available is not None and available.high <= 0:
        found.append(_without_memory(seen, available))
    return found


def _tokens_by_concurrency(capacity: Printed, concurrency: Printed, length: int) -> Check:
    predicted = round(concurrency.value * length)
    slack = round(concurrency.step / 2 * length) + 1
    inside = abs(capacity.value - concurrency.value * length) <= slack
    why = f"concurrency x {length:,} tokens: one group, or vllm 0.21 and later"
    if not inside:
        why = (
            "tokens are not concurrency x length: before vllm 0.21 the line said blocks // groups "
            "x block size; which it is, only the model can tell"
        )
    return _tokens(predicted, capacity, slack, inside, why)


def _tokens(predicted: int, capacity: Printed, slack: int, agrees: bool, why: str) -> Check:
    return Check(
        name="capacity_tokens",
        predicted=predicted,
        measured=int(capacity.value),
        difference=int(capacity.value) - predicted,
        tolerance=slack,
        ok=True if agrees else None,
        why=why,
        unit="tokens",
    )


def _without_memory(seen: Seen, available: Printed) -> Check:
    measured = OUTCOMES[seen.outcome] if seen.outcome else None
    why = f"{available.value:.2f} GiB are left for the cache, whatever the model"
    return Check(
        name="starts",
        predicted=OUTCOMES[s.NO_MEMORY],
        measured=measured,
        difference=None,
        tolerance=None,
        ok=None if measured is None else seen.outcome == s.NO_MEMORY,
        why=why if measured else f"{why}; the log does not say how it ended",
        unit="",
    )
