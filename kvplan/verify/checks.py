"""What a verification says: checks, each a prediction beside a measurement.

A check is `ok`, has failed (`ok` False), or could not be decided (`ok` None): the device does not
report the figure, or nothing predicts it. A check that could not be decided never counts as agreement,
and its `why` says what stood in the way. Bytes are integers.

Every part of `verify` answers in checks, so all of them end in one table and one exit code:
`measure` (memory), `decode` (the proof that the layout works), `running` (a running engine's figures).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.engines.layout import CacheLayout
    from kvplan.plan.size import SizeResult

Figure = int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison.

    Attributes:
        name: what is compared, by the contract's names: `tensor_bytes`, `memory_allocated`, ...
        predicted, measured: the two figures; None where there is none.
        difference: measured - predicted, None where that makes no sense.
        tolerance: largest difference that still agrees, in the figures' unit; None: none applies.
        ok: whether they agree; None when that could not be decided.
        why: one sentence: what the figures are, where the tolerance comes from, what went wrong.
        unit: `B`, or what the figures count.
    """

    name: str
    predicted: Figure
    measured: Figure
    difference: int | float | None
    tolerance: int | float | None
    ok: bool | None
    why: str
    unit: str = "B"


def compare(
    name: str,
    predicted: int,
    measured: int | None,
    why: str,
    *,
    tolerance: int = 0,
    unit: str = "B",
) -> Check:
    """The check that two counts differ by at most `tolerance`; undecided without a measurement."""
    difference = None if measured is None else measured - predicted
    return Check(
        name=name,
        predicted=predicted,
        measured=measured,
        difference=difference,
        tolerance=tolerance,
        ok=None if difference is None else abs(difference) <= tolerance,
        why=why,
        unit=unit,
    )


def undecided(name: str, why: str, *, predicted: Figure = None, measured: Figure = None) -> Check:
    """A check that says why it cannot be decided."""
    return Check(
        name=name,
        predicted=predicted,
        measured=measured,
        difference=None,
        tolerance=None,
        ok=None,
        why=why,
    )


def agreement(checks: Iterable[Check]) -> bool:
    """Whether something was compared and nothing disagreed."""
    verdicts = [check.ok for check in checks]
    return True in verdicts and False not in verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank found.

    Attributes:
        rank: its number in the layout.
        device: what it ran on, and what that device reported.
        checks: its checks.
        notes: sentences that explain figures without being a check.
        also: ranks whose tensors are the same, so that these checks stand for them too.
    """

    rank: int
    device: Mapping[str, Any]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    also: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The answer of `kvplan verify`.

    Attributes:
        size: the prediction, as `size` gives it.
        layout: the tensors that were allocated; None when nothing was (a running engine).
        device: the device of the first rank.
        checks: over all ranks: sums of bytes, and what belongs to no single rank.
        ranks: what each rank found.
        notes: what the reader should know: a smaller cache was allocated, ...
    """

    size: SizeResult
    layout: CacheLayout | None
    device: Mapping[str, Any]
    checks: tuple[Check, ...]
    ranks: tuple[RankReport, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing disagreed."""
        return agreement(self.checks)


def over_ranks(reports: Sequence[RankReport]) -> tuple[Check, ...]:
    """Each check once, its figures summed over the ranks that it stands for.

    A sum is ok when every rank is; it has failed when one has.
    """
    by_name: dict[str, list[tuple[Check, int]]] = {}
    for report in reports:
        for check in report.checks:
            by_name.setdefault(check.name, []).append((check, 1 + len(report.also)))
    return tuple(_sum(found) for found in by_name.values())


def _sum(found: Sequence[tuple[Check, int]]) -> Check:
    first = found[0][0]
    if len(found) == 1 and found[0][1] == 1:
        return first
    verdicts = [check.ok for check, _ in found]
    ok = False if False in verdicts else None if None in verdicts else True
    worst = next((check for check, _ in found if check.ok is ok), first)
    ranks = sum(times for _, times in found)
    return Check(
        name=first.name,
        predicted=_total((check.predicted, times) for check, times in found),
        measured=_total((check.measured, times) for check, times in found),
        difference=_total((check.difference, times) for check, times in found),
        tolerance=_total((check.tolerance, times) for check, times in found),
        ok=ok,
        why=f"{ranks} ranks: {worst.why}",
        unit=first.unit,
    )


def _total(figures: Iterable[tuple[Figure, int]]) -> Any:
    """The sum of `figure x times`; None when one is no number."""
    total: int | float = 0
    for figure, times in figures:
        if not isinstance(figure, int | float):
            return None
        total += figure * times
    return total
