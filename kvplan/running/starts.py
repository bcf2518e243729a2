"""Which start of a log counts: the last complete one, else the last one that says anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kvplan.running.seen import Seen

# Further engines of one start (data parallel ranks) print a configuration of their own.
_FURTHER_RANK = re.compile(r"\bDP[1-9]\d*\b|EngineCore_DP[1-9]|\bEngineCore_[1-9]\d*\b")


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of a log.

    Attributes:
        chosen: the one that counts; None when no line told anything of a cache.
        complete, broken: how many ended with a cache or a refusal, and how many were cut off.
        facts_only: the last start that named settings, when none told of a cache.
    """

    chosen: Seen | None
    complete: int
    broken: int
    facts_only: Seen | None = None

    @property
    def note(self) -> str | None:
        """What the reader should know when there was more than one."""
        total = self.complete + self.broken
        if self.chosen is None or total < 2:
            return None
        kind = "last complete one" if self.chosen.complete else "last one"
        return (
            f"the log holds {total} starts, {self.complete} of them complete: the {kind} counts, "
            f"from line {self.chosen.first_line:,}"
        )


class Splitter:
    """Splits a log into the starts of one engine, line by line.

    Args:
        engine: whose log it is.
        read: notes what a line says; False when it is not the engine's.
        begins: whether a start begins with a line.
    """

    def __init__(
        self, engine: str, read: Callable[[str, int, Seen], bool], begins: Callable[[str], bool]
    ) -> None:
        self._engine, self._read, self._begins = engine, read, begins
        # Only what can still be chosen is kept: a log may hold any number of starts.
        self._current: Seen | None = None
        self._complete: Seen | None = None
        self._telling: Seen | None = None
        self._counts = [0, 0]

    def feed(self, line: str, number: int) -> None:
        """Take the next line."""
        current = self._current
        opens = (
            current is not None
            and current.complete
            and self._begins(line)
            and not _FURTHER_RANK.search(line)
        )
        if current is None or opens:
            fresh = Seen(engine=self._engine, first_line=number)
            if self._read(line, number, fresh):
                self._close()
                self._current = fresh
            return
        self._read(line, number, current)

    def _close(self) -> None:
        current = self._current
        if current is None or not current.tells:
            return
        self._telling = current
        self._counts[not current.complete] += 1
        if current.complete:
            self._complete = current

    def starts(self) -> Starts:
        """The starts seen, once every line was fed."""
        self._close()
        chosen = self._complete or self._telling
        last, self._current = self._current, None
        return Starts(
            chosen=chosen,
            complete=self._counts[0],
            broken=self._counts[1],
            facts_only=last if chosen is None else None,
        )
