"""Checks: what agrees, what does not, what is open, and their sums over ranks."""

from __future__ import annotations

import pytest

from kvplan.checks import Check, RankReport, agreement, compare, over_ranks, undecided


@pytest.mark.parametrize(
    ("measured", "tolerance", "difference", "ok"),
    [(100, 0, 0, True), (101, 0, 1, False), (101, 1, 1, True), (99, 1, -1, True),
     (98, 1, -2, False), (None, 5, None, None)],
)  # fmt: skip
def test_compare(
    measured: int | None, tolerance: int, difference: int | None, ok: bool | None
) -> None:
    """Within the tolerance on either side; nothing measured decides nothing."""
    found = compare("x", 100, measured, "why", tolerance=tolerance)
    assert (found.difference, found.ok) == (difference, ok)


@pytest.mark.parametrize(
    ("verdicts", "agrees"),
    [([True], True), ([True, None], True), ([True, False], False), ([None], False), ([], False)],
)
def test_what_is_open_is_no_agreement(verdicts: list[bool | None], agrees: bool) -> None:
    """Something must have been compared, and nothing may have failed."""
    checks = [
        Check(name="x", predicted=1, measured=1, difference=0, tolerance=0, ok=ok, why="")
        for ok in verdicts
    ]
    assert agreement(checks) is agrees


def report(rank: int, *checks: Check) -> RankReport:
    return RankReport(rank=rank, device={}, checks=checks)


def test_ranks_add_up() -> None:
    """Figures, differences and tolerances are summed."""
    (found,) = over_ranks(
        [
            report(0, compare("x", 10, 10, "of rank 0", tolerance=2)),
            report(1, compare("x", 20, 21, "of rank 1", tolerance=2)),
        ]
    )
    assert (found.predicted, found.measured, found.difference, found.tolerance) == (30, 31, 1, 4)
    assert found.ok is True


def test_a_sum_is_no_better_than_its_ranks() -> None:
    """+1 and -1 cancel in the sum and still fail; the failing rank's reason is shown."""
    (found,) = over_ranks(
        [report(0, compare("x", 10, 11, "one more")), report(1, compare("x", 10, 9, "one less"))]
    )
    assert (found.difference, found.ok) == (0, False)
    assert found.why == "2 ranks: one more"


def test_an_open_rank_leaves_the_sum_open() -> None:
    """Unless another rank has failed."""
    open_ = report(1, undecided("x", "not reported"))
    good, bad = report(0, compare("x", 1, 1, "")), report(0, compare("x", 1, 2, ""))

    assert over_ranks([good, open_])[0].ok is None
    assert over_ranks([good, open_])[0].predicted is None
    assert over_ranks([bad, open_])[0].ok is False


def test_one_rank_is_left_as_it_is() -> None:
    """No sum over a single report."""
    check = compare("x", 1, 1, "why")
    assert over_ranks([report(0, check)]) == (check,)
