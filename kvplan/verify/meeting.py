"""Where ranks meet: small messages through torch.distributed's store, and who has gone silent.

Nothing here blocks for long. A rank that is killed cannot say so; others see that its heartbeat has
stopped. What may block inside torch (joining, a collective, the store whose host is stopped) runs
in a thread of its own, so that this process still answers signals and still notices silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from kvplan.verify.world import World

# Until every rank has started python and imported torch. torchrun notices at once when one dies,
# so under it a slow disk is the likelier reason; without it nobody else would ever say so.
_ARRIVAL_UNDER_TORCHRUN = 120.0
_ARRIVAL = 25.0
SILENCE_SECONDS = 12.0  # a rank whose heartbeat stands still that long is gone
_BEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.05


_NO_STORE = "the process that hosts the meeting place of the ranks is gone or stopped"


class RankLost(Exception):
    """Ranks do not answer any more; `why` says which, and since when."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Meeting:
    """One process's view of all ranks.

    Args:
        distributed: the module `torch.distributed`.
        world: this process's place.

    Raises:
        RankLost: the meeting place cannot be reached.
    """

    def __init__(self, distributed: Any, world: World) -> None:
        self.world = world
        self._distributed = distributed
        launched = distributed.is_torchelastic_launched()
        self.arrival_seconds = _ARRIVAL_UNDER_TORCHRUN if launched else _ARRIVAL
        limit = timedelta(seconds=self.arrival_seconds)
        self.store = in_thread(
            lambda: next(iter(distributed.rendezvous("env://", timeout=limit)))[0],
            self.arrival_seconds,
            "the ranks could not meet at MASTER_ADDR:MASTER_PORT, or one never started",
        )
        self._ended = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def say(self, topic: str, text: str = "") -> None:
        """Tell all ranks something, once per topic."""
        self._ask(lambda: self.store.set(self._key(topic, self.world.rank), text))

    def heard(self, topic: str, rank: int) -> str | None:
        """What a rank said, None while it has not."""
        key = self._key(topic, rank)
        found: bytes | None = self._ask(
            lambda: self.store.get(key) if self.store.check([key]) else None
        )
        return None if found is None else found.decode()

    def _ask(self, work: Callable[[], Any]) -> Any:
        """Ask the store. Its host may be stopped, and an answer then never comes."""
        return in_thread(work, SILENCE_SECONDS, _NO_STORE)

    def hear_all(self, topic: str, seconds: float | None = None) -> list[str]:
        """What every rank said, in their order; waits for it while all are alive.

        Raises:
            RankLost: a rank has gone silent, or `seconds` are over.
        """
        watch = _Watch(self)
        started = time.monotonic()
        while True:
            said = [self.heard(topic, rank) for rank in range(self.world.size)]
            missing = [rank for rank, text in enumerate(said) if text is None]
            if not missing:
                return [text for text in said if text is not None]
            watch.look(missing)
            if seconds is not None and time.monotonic() - started > seconds:
                raise RankLost(f"no answer of rank {missing[0]} within {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """Stop the heartbeat."""
        self._ended.set()

    def _beat(self) -> None:
        count = 0
        while not self._ended.is_set():
            count += 1
            try:
                self.say("beat", str(count))
            except RankLost:  # whoever waits will notice too
                return
            self._ended.wait(_BEAT_SECONDS)

    @staticmethod
    def _key(topic: str, rank: int) -> str:
        return f"kvplan/{topic}/{rank}"


class _Watch:
    """Notices when a heartbeat stands still."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self._started = time.monotonic()
        self._last: dict[int, tuple[str | None, float]] = {}

    def look(self, ranks: Iterable[int]) -> None:
        now = time.monotonic()
        for rank in ranks:
            beat = self._meeting.heard("beat", rank)
            if rank not in self._last or self._last[rank][0] != beat:
                self._last[rank] = (beat, now)
            allowed = self._meeting.arrival_seconds if beat is None else SILENCE_SECONDS
            if now - self._last[rank][1] > allowed:
                why = "never arrived" if beat is None else "has gone silent"
                raise RankLost(f"rank {rank} {why} ({allowed:.0f} s)")


def in_thread(work: Callable[[], Any], seconds: float, otherwise: str) -> Any:
    """Run what may block for long, while this thread stays open to signals.

    Raises:
        RankLost: it takes longer than `seconds`, or fails.
    """
    done: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # whatever torch raises is told to the caller
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_LOOK_SECONDS)
    if done:
        return done[0]
    said = str(failed[0]).splitlines()[0] if failed and str(failed[0]) else "no answer"
    raise RankLost(f"{otherwise}: {said}")
