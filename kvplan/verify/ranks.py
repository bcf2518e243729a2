"""Several ranks: each process measures its own part of the layout, rank 0 has the whole report.

    1. meet        all ranks have started
    2. ready       each has looked at its device; one that refuses stops all, before any allocation
    3. measure     each allocates, touches, measures and frees its tensors
    4. gather      the reports go through torch.distributed: nccl between GPUs, else gloo

A rank that fails reports so. One that is killed is missed by the others, which end by themselves
with what they have; torchrun also sends them SIGTERM, which is taken as the news that it is.
"""

from __future__ import annotations

import pickle
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from kvplan.checks import Check, RankReport
from kvplan.errors import KvplanError
from kvplan.verify.devices.device import Device
from kvplan.verify.meeting import Meeting, RankLost, in_thread
from kvplan.verify.world import World

_GATHER_SECONDS = 20.0
_LAST_WORDS_SECONDS = 2.0


class Stopped(BaseException):
    """SIGTERM: the launcher wants this process to end, because another rank has."""


class Refused(KvplanError):
    """A rank refuses to allocate, so none does."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn SIGTERM into `Stopped`, so that what is allocated is freed on the way out."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def together(
    torch: Any,
    world: World,
    device: Device,
    look: Callable[[], None],
    measure: Callable[[], RankReport],
) -> tuple[list[RankReport], Check]:
    """Measure on every rank; every rank gets all reports that there are, and a check over them.

    Args:
        torch: the module.
        world: this process's place.
        device: where this rank measures.
        look: raises KvplanError when this rank should not allocate.
        measure: this rank's measurement.

    Raises:
        Refused: a rank said no before anything was allocated.
        NeverMet: the ranks did not come together.
    """
    own: list[RankReport] = []
    meeting: Meeting | None = None
    try:
        meeting = _met(torch.distributed, world)
        _all_ready(meeting, look)
        own.append(_measured(world, measure))
        meeting.say("done")
        meeting.hear_all("done")
        reports, way = _gather(torch, meeting, device, own[0])
        _part(torch, meeting)
    except RankLost as lost:
        return own, _lost(world, lost.why, len(own))
    except Stopped:
        gone = _without_last_words(meeting) if meeting is not None else ()
        said = f"{_named(gone)} gone (killed, or out of memory?), and " if gone else ""
        return own, _lost(
            world, f"{said}the launcher ended this rank before all were done", len(own)
        )
    finally:
        if meeting is not None:
            meeting.end()
    return reports, Check(
        name="ranks",
        predicted=world.size,
        measured=len(reports),
        difference=0,
        tolerance=0,
        ok=True,
        why=f"every rank reported, gathered through {way}",
        unit="ranks",
    )


class NeverMet(KvplanError):
    """The ranks did not come together, so nothing was measured."""


def _met(distributed: Any, world: World) -> Meeting:
    """The meeting of all ranks.

    Raises:
        NeverMet: the place cannot be reached, is taken, or a rank never came.
    """
    meeting: Meeting | None = None
    try:
        meeting = Meeting(distributed, world)
        meeting.say("here")
        meeting.hear_all("here")
    except RankLost as lost:
        if meeting is not None:
            meeting.end()
        hint = "MASTER_ADDR and MASTER_PORT must be one free place for all ranks, all started"
        raise NeverMet(lost.why, hint=hint) from None
    return meeting


def _all_ready(meeting: Meeting, look: Callable[[], None]) -> None:
    refusal = ""
    try:
        look()
    except KvplanError as error:
        refusal = str(error)
    meeting.say("ready", refusal)
    for rank, text in enumerate(meeting.hear_all("ready")):
        if text:
            raise Refused(f"rank {rank}: {text}")


def _measured(world: World, measure: Callable[[], RankReport]) -> RankReport:
    """This rank's report; a failure is a report too, for the others wait for one."""
    try:
        return measure()
    except Exception as error:  # whatever it is, it belongs into the table of rank 0
        text = str(error).partition("\n")[0] or type(error).__name__
        failed = Check(
            name="measurement",
            predicted="a report",
            measured="an error",
            difference=None,
            tolerance=None,
            ok=False,
            why=f"rank {world.rank} failed: {text}",
            unit="",
        )
        return RankReport(rank=world.rank, device={}, checks=(failed,))


def _gather(
    torch: Any, meeting: Meeting, device: Device, own: RankReport
) -> tuple[list[RankReport], str]:
    """All ranks' reports, on every rank, and the way they took."""
    distributed, world = torch.distributed, meeting.world
    limit = timedelta(seconds=_GATHER_SECONDS)

    def through(backend: str) -> list[RankReport]:
        # a default group over gloo exists in any case, so that a broken nccl is only reported
        if not distributed.is_initialized():
            store = distributed.PrefixStore("kvplan/group", meeting.store)
            distributed.init_process_group(
                "gloo", store=store, rank=world.rank, world_size=world.size, timeout=limit
            )
        group = None
        if backend != "gloo":
            group = distributed.new_group(backend=backend, timeout=limit)
        return _exchange(torch, own, world.size, group, "cpu" if backend == "gloo" else "cuda")

    def gathered(backend: str) -> list[RankReport]:
        reports: list[RankReport] = in_thread(
            lambda: through(backend), _GATHER_SECONDS, f"the reports did not pass through {backend}"
        )
        return reports

    if not device.name.startswith("cuda") or not distributed.is_nccl_available():
        return gathered("gloo"), "gloo"
    reports: list[RankReport] = []
    problem = ""
    try:
        reports = gathered("nccl")
    except RankLost as lost:
        problem = lost.why
    meeting.say("nccl", problem)
    problems = [text for text in meeting.hear_all("nccl") if text]
    if not problems:
        return reports, "nccl"
    return gathered("gloo"), f"gloo; {problems[0]}"


def _exchange(torch: Any, own: RankReport, size: int, group: Any, place: str) -> list[RankReport]:
    """Every rank's report as bytes in tensors: torch's own object gathering needs numpy."""
    data = pickle.dumps(own)
    lengths = [torch.zeros(1, dtype=torch.int64, device=place) for _ in range(size)]
    mine = torch.tensor([len(data)], dtype=torch.int64, device=place)
    torch.distributed.all_gather(lengths, mine, group=group)
    longest = max(int(length) for length in lengths)
    rows = [torch.zeros(longest, dtype=torch.uint8, device=place) for _ in range(size)]
    padded = bytearray(data.ljust(longest, b"\0"))
    filled = torch.frombuffer(padded, dtype=torch.uint8).to(place)
    torch.distributed.all_gather(rows, filled, group=group)
    return [
        pickle.loads(bytes(row[: int(length)].tolist()))
        for row, length in zip(rows, lengths, strict=True)
    ]


def _part(torch: Any, meeting: Meeting) -> None:
    """Leave in good order; the rank that may host the meeting place does so last."""
    with suppress(RankLost):
        leave = torch.distributed.destroy_process_group
        in_thread(leave, _LAST_WORDS_SECONDS, "the process group does not end")
        meeting.say("bye")
        if meeting.world.rank == 0:
            meeting.hear_all("bye", _LAST_WORDS_SECONDS)


def _without_last_words(meeting: Meeting) -> Sequence[int]:
    """Ranks that, unlike those that were asked to end, say nothing any more."""
    others = set(range(meeting.world.size)) - {meeting.world.rank}
    with suppress(RankLost):
        beats = {rank: meeting.heard("beat", rank) for rank in others}
        meeting.say("stopped")
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while others and time.monotonic() < deadline:
            others -= {rank for rank in others if meeting.heard("stopped", rank) is not None}
            time.sleep(0.05)
        # A busy one may not have come to its last words; its heart still beats.
        others -= {rank for rank in others if meeting.heard("beat", rank) != beats[rank]}
    return sorted(others)


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} are"


def _lost(world: World, why: str, reports: int) -> Check:
    return Check(
        name="ranks",
        predicted=world.size,
        measured=reports,
        difference=reports - world.size,
        tolerance=0,
        ok=False,
        why=f"{why}; everything on this rank was freed",
        unit="ranks",
    )
