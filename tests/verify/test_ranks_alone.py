"""What a rank does with trouble of its own, seen from one process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.checks import RankReport
from kvplan.errors import UsageError
from kvplan.verify import ranks
from kvplan.verify.meeting import RankLost
from kvplan.verify.ranks import NeverMet, Refused, Stopped, together
from kvplan.verify.world import World

WORLD = World(0, 2, 0, 2)
CPU: Any = SimpleNamespace(name="cpu")


class Meeting:
    """Rank 1 says what the test wants it to; rank 0 is this process."""

    def __init__(self, distributed: Any, world: World) -> None:
        self.world = world
        self.said: dict[str, str] = {}
        self.ended = False
        Meeting.last = self

    last: Meeting
    other: dict[str, str] = {}  # noqa: RUF012 - each test sets its own
    lost_at = ""

    def say(self, topic: str, text: str = "") -> None:
        self.said[topic] = text

    def heard(self, topic: str, rank: int) -> str | None:
        return self.other.get(topic)

    def hear_all(self, topic: str, seconds: float | None = None) -> list[str]:
        if topic == self.lost_at:
            raise RankLost("rank 1 has gone silent (12 s)")
        return [self.said[topic], self.other.get(topic, "")]

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def _meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meeting, "other", {})
    monkeypatch.setattr(Meeting, "lost_at", "")
    monkeypatch.setattr(ranks, "Meeting", Meeting)
    monkeypatch.setattr(ranks, "_LAST_WORDS_SECONDS", 0.1)
    monkeypatch.setattr(ranks, "_gather", lambda torch, meeting, device, own: ([own, own], "gloo"))
    monkeypatch.setattr(ranks, "_part", lambda torch, meeting: None)


def report() -> RankReport:
    return RankReport(rank=0, device={}, checks=())


def run(measure: Any = report, look: Any = lambda: None) -> tuple[list[RankReport], Any]:
    found = together(SimpleNamespace(distributed=None), WORLD, CPU, look, measure)
    assert Meeting.last.ended
    return found


def test_all_report() -> None:
    """One check over all ranks says so."""
    reports, check = run()

    assert len(reports) == 2
    assert (check.name, check.predicted, check.measured, check.ok) == ("ranks", 2, 2, True)


def test_one_refusal_stops_all() -> None:
    """Before anything is allocated, with the rank that refused."""

    def never() -> RankReport:
        raise AssertionError("measured")

    Meeting.other = {"ready": "cpu has no room"}
    with pytest.raises(Refused, match="rank 1: cpu has no room"):
        run(never)


def test_an_own_refusal_is_told_to_the_others() -> None:
    """They would wait otherwise."""

    def look() -> None:
        raise UsageError("no room")

    with pytest.raises(Refused, match="rank 0: no room"):
        run(look=look)
    assert Meeting.last.said["ready"] == "no room"


def test_a_failure_is_a_report() -> None:
    """With a failed check instead of figures."""

    def fails() -> RankReport:
        raise ValueError("broken\ndetails")

    reports, _ = run(fails)

    assert reports[0].checks[0].ok is False
    assert reports[0].checks[0].why == "rank 0 failed: broken"


def test_ranks_that_never_meet() -> None:
    """Nothing was measured, so this is no disagreement but an error."""
    Meeting.lost_at = "here"

    with pytest.raises(NeverMet, match="rank 1 has gone silent"):
        together(SimpleNamespace(distributed=None), WORLD, CPU, lambda: None, report)
    assert Meeting.last.ended


@pytest.mark.parametrize(("topic", "own"), [("ready", 0), ("done", 1)])
def test_a_silent_rank(topic: str, own: int) -> None:
    """Whenever it falls silent, this rank ends with what it has."""
    Meeting.lost_at = topic
    reports, check = run()

    assert len(reports) == own
    assert (check.measured, check.ok) == (own, False)
    assert check.why.startswith("rank 1 has gone silent")


def stopped() -> RankReport:
    raise Stopped


def test_the_launcher_ends_this_rank() -> None:
    """The rank that does not say a last word is the one that is gone."""
    _, check = run(stopped)

    assert check.ok is False
    assert check.why.startswith("rank 1 is gone")


def test_the_launcher_ends_all() -> None:
    """Rank 1 was asked to end as well and says so: nobody in particular is gone."""
    Meeting.other = {"stopped": ""}
    _, check = run(stopped)

    assert check.why.startswith("the launcher ended this rank")
