"""Ranks that talk, and ranks that have gone silent."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.verify import meeting as room
from kvplan.verify.meeting import Meeting, RankLost, in_thread
from kvplan.verify.world import World


class Store:
    """As torch.distributed's store, within this process."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.broken = False

    def set(self, key: str, text: str) -> None:
        self._look()
        self.data[key] = text.encode()

    def check(self, keys: list[str]) -> bool:
        self._look()
        return all(key in self.data for key in keys)

    def get(self, key: str) -> bytes:
        return self.data[key]

    def _look(self) -> None:
        if self.broken:
            raise RuntimeError("connection reset")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(room, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(room, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(room, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(room, "_ARRIVAL", 0.5)
    return Store()


def join(store: Store, rank: int, size: int = 2) -> Meeting:
    distributed: Any = SimpleNamespace(
        rendezvous=lambda url, timeout: iter([(store, rank, size)]),
        is_torchelastic_launched=lambda: False,
    )
    return Meeting(distributed, World(rank, size, rank, size))


def test_everyone_hears_everyone(store: Store) -> None:
    """In the order of ranks."""
    first, second = join(store, 0), join(store, 1)
    second.say("topic", "from 1")
    first.say("topic", "from 0")

    assert first.hear_all("topic") == ["from 0", "from 1"]
    assert second.hear_all("topic") == ["from 0", "from 1"]
    first.end()
    second.end()


def test_a_rank_that_lives_is_waited_for(store: Store) -> None:
    """Longer than silence would be allowed, because its heart beats."""
    first, second = join(store, 0), join(store, 1)
    first.say("topic")
    started = time.monotonic()
    with pytest.raises(RankLost, match="no answer of rank 1 within 1 s"):
        first.hear_all("topic", 0.6)

    assert time.monotonic() - started >= 0.6
    first.end()
    second.end()


def test_a_rank_whose_heart_stops_is_lost(store: Store) -> None:
    """It is named."""
    first, second = join(store, 0), join(store, 1)
    second.end()
    first.say("topic")
    with pytest.raises(RankLost, match="rank 1 has gone silent"):
        first.hear_all("topic")
    first.end()


def test_a_rank_that_never_came(store: Store) -> None:
    """It is named too."""
    first = join(store, 0)
    first.say("topic")
    with pytest.raises(RankLost, match="rank 1 never arrived"):
        first.hear_all("topic")
    first.end()


def test_the_host_of_the_meeting_place_goes(store: Store) -> None:
    """Every call then says the same, instead of what torch raises."""
    first = join(store, 0)
    first.end()
    store.broken = True
    for call in (lambda: first.say("x"), lambda: first.hear_all("x")):
        with pytest.raises(RankLost, match="hosts the meeting place"):
            call()


def test_what_blocks_is_left_behind() -> None:
    """After its time is over this thread goes on."""
    with pytest.raises(RankLost, match="slow: no answer"):
        in_thread(lambda: time.sleep(1), 0.05, "slow")


def test_what_fails_is_told() -> None:
    """With its own first line."""

    def fails() -> None:
        raise ValueError("bad\nworse")

    with pytest.raises(RankLost, match=r"^step: bad$"):
        in_thread(fails, 5, "step")
    assert in_thread(lambda: None, 5, "step") is None
