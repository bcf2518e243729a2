"""What a verification says: checks, each a prediction beside a measurement.

A check is `ok`, has failed (`ok` False), or could not be decided (`ok` None): the device does not
report the figure, or nothing predicts it. What could not be decided never counts as agreement, and
its `why` says what stood in the way. Bytes are integers.

Every part of `verify` answers in checks, so all of them end in one table and one exit code: memory
(`devices`), the proof that the layout works (`decode`), a running engine's figures (`running`).
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
    return verdict_of(checks) is True


def verdict_of(checks: Iterable[Check]) -> bool | None:
    """Whether all that was compared agrees; None where nothing could be compared."""
    verdicts = [check.ok for check in checks]
    return False if False in verdicts else True if True in verdicts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank found.

    Attributes:
        rank: its number in the layout.
        device: what it ran on, and what that device reported.
        checks: its checks.
        notes: sentences that explain figures without being a check.
    """

    rank: int
    device: Mapping[str, Any]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The answer of `kvplan verify`.

    Attributes:
        size: the prediction, as `size` gives it; None when a running engine's model is not known.
        layout: the tensors that were allocated; None when nothing was (a running engine).
        device: the device of the first rank.
        checks: over all ranks: sums of bytes, and what belongs to no single rank.
        ranks: what each rank found.
        notes: what the reader should know: a smaller cache was allocated, ...
    """

    size: SizeResult | None
    layout: CacheLayout | None
    device: Mapping[str, Any]
    checks: tuple[Check, ...]
    ranks: tuple[RankReport, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool | None:
        """Whether all that was compared agrees; None where nothing could be compared."""
        return verdict_of(self.checks)

    @property
    def exit_code(self) -> int:
        """0 agrees, 1 does not, 2 nothing was compared, which is no verdict."""
        return {True: 0, False: 1, None: 2}[self.ok]


def over_ranks(reports: Sequence[RankReport]) -> tuple[Check, ...]:
    """Each check once, its figures summed over the ranks.

    A sum is ok when every rank is; it has failed when one has.
    """
    by_name: dict[str, list[Check]] = {}
    for report in reports:
        for check in report.checks:
            by_name.setdefault(check.name, []).append(check)
    return tuple(_sum(found) for found in by_name.values())


def _sum(found: Sequence[Check]) -> Check:
    if len(found) == 1:
        return found[0]
    verdicts = [check.ok for check in found]
    ok = False if False in verdicts else None if None in verdicts else True
    telling = next(check for check in found if check.ok is ok)
    return Check(
        name=telling.name,
        predicted=_total(check.predicted for check in found),
        measured=_total(check.measured for check in found),
        difference=_total(check.difference for check in found),
        tolerance=_total(check.tolerance for check in found),
        ok=ok,
        why=f"{len(found)} ranks: {telling.why}",
        unit=telling.unit,
    )


def _total(figures: Iterable[Figure]) -> Any:
    """The sum; None when one of them is no number."""
    total: int | float = 0
    for figure in figures:
        if not isinstance(figure, int | float):
            return None
        total += figure
    return total
