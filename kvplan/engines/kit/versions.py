"""An engine's releases as one table of changes, folded into the rules of any version.

    rules(V) = the oldest release's rules, and every change with since <= V, in order
    claim(V) = driven  the release's own code was run      read     its code was read
               nearest no such release was looked at: the rules of the one below it

Versions are read as PEP 440 writes them (`v0.11.0`, `0.6.6.post1`, `0.11.1rc2.dev3+cu129`) or as a
build number (`b11434`, llama.cpp). A pre-release counts as its release, whose code it nearly has; a
post-release lies behind it; a local build is the version in front of the `+`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple
from kvplan.record import Record

DRIVEN, READ, NEAREST = "driven", "read", "nearest"

# Behind the release only what PEP 440 has there: a1, rc2, .post1, .dev3, +cu129.
_VERSION = re.compile(
    r"v?(\d{1,6}(?:\.\d{1,6}){0,3})((?:[._-]?(?:a|b|c|rc|alpha|beta|post|dev)[._-]?\d{0,12})*)"
    r"(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?",
    re.ASCII | re.IGNORECASE,
)
_BUILD = re.compile(r"b(\d{1,9})(?:-[0-9a-f]{4,40})?", re.ASCII | re.IGNORECASE)
_POST = re.compile(r"post[._-]?(\d{1,6})", re.IGNORECASE)


class Version(NamedTuple):
    """A version as numbers, to be compared; a build number is the first of them alone."""

    release: tuple[int, int, int, int]
    post: int

    def starts_with(self, *numbers: int) -> bool:
        """Whether it is one of the releases `0.11` or `0.11.1`, given as numbers."""
        return self.release[: len(numbers)] == numbers


def parse_version(text: str, *, engine: str, like: str) -> Version:
    """A version of an engine.

    Args:
        text: what was written.
        engine: its name, for the message.
        like: a version of it, for the hint.

    Raises:
        UsageError: not a version.
    """
    found = as_version(text)
    if found is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(f"{engine} version {shown!r} is not a version", hint=f"write it as {like}")
    return found


def as_version(text: str) -> Version | None:
    """The version that `text` is, None if it is none."""
    text = text.strip()
    if (build := _BUILD.fullmatch(text)) is not None:
        return Version((int(build[1]), 0, 0, 0), 0)
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    post = _POST.search(match[2])
    first, second, third, fourth = (*numbers, 0, 0, 0)[:4]
    return Version((first, second, third, fourth), int(post[1]) if post else 0)


class Change(Record):
    """One row: what a release does otherwise than the one before.

    Attributes:
        since: the release that brought it.
        sentence: what it does, as verify, fit and the pages print it.
        source: files of the release where that stands.
        how: `driven` or `read`.
        rules: the fields of the engine's rules that it sets.
    """

    since: str
    sentence: str
    source: str
    how: str
    rules: Mapping[str, Any]


class Claim(Record):
    """What the rules of one version rest on.

    Attributes:
        how: `driven`, `read` or `nearest`.
        release: the release that was looked at, whose rules these are.
        sentence: the same in words; None for a release that was run itself.
    """

    how: str
    release: str
    sentence: str | None

    @property
    def known(self) -> bool:
        """Whether a release of that number was looked at."""
        return self.how != NEAREST


R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class History(Generic[R]):
    """The releases of an engine.

    Attributes:
        engine: its name.
        oldest: rules of the oldest release; a dataclass with a field `version`.
        changes: rows, oldest first.
        driven, read: releases whose own code was run, or read.
        same: release -> the one with the same planning code, held together file by file.
    """

    engine: str
    oldest: R
    changes: tuple[Change, ...]
    driven: tuple[str, ...]
    read: tuple[str, ...] = ()
    same: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        numbers = [self.number(row.since) for row in self.changes]
        if numbers != sorted(numbers):
            raise ValueError(f"the changes of {self.engine} are not oldest first")

    @cached_property
    def _numbers(self) -> dict[Version, str]:
        names = (*self.driven, *self.read, *(self.same or {}))
        return {self.number(name): name for name in names}

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """Releases that were looked at, newest first."""
        return tuple(self._numbers[number] for number in sorted(self._numbers, reverse=True))

    @cached_property
    def _folded(self) -> dict[Version, R]:
        return {}

    def number(self, version: str) -> Version:
        """A version of this engine as numbers.

        Raises:
            UsageError: not a version.
        """
        like = self.driven[0] if self.driven else self.read[0]
        return parse_version(version, engine=self.engine, like=like)

    def rules_of(self, version: str) -> R:
        """The rules of `version`, named after the release that was looked at.

        Raises:
            UsageError: not a version.
        """
        wanted = self.number(version)
        rules = self._folded.get(wanted)
        if rules is None:
            changes: dict[str, Any] = {"version": self.claim(version).release}
            for row in self.changes:
                if self.number(row.since) <= wanted:
                    changes |= row.rules
            rules = self._folded[wanted] = replace(self.oldest, **changes)  # type: ignore[type-var]
        return rules

    def claim(self, version: str) -> Claim:
        """What the rules of a version rest on.

        Raises:
            UsageError: not a version.
        """
        wanted = self.number(version)
        name = self._numbers.get(wanted)
        if name is None:
            return self._nearest(version, wanted)
        if name in self.driven:
            return Claim(how=DRIVEN, release=name, sentence=None)
        if name in self.read:
            sentence = f"the rules of {name} were read in that release, not run"
            return Claim(how=READ, release=name, sentence=sentence)
        other = (self.same or {})[name]
        how, done = (DRIVEN, "run") if other in self.driven else (READ, "read")
        sentence = f"{name} plans with the code of {other}, which was {done}"
        return Claim(how=how, release=name, sentence=sentence)

    def changes_between(self, first: str, second: str) -> tuple[Change, ...]:
        """The rows that lie between two versions, whichever is the newer.

        Raises:
            UsageError: not a version.
        """
        low, high = sorted((self.number(first), self.number(second)))
        return tuple(row for row in self.changes if low < self.number(row.since) <= high)

    def _nearest(self, version: str, wanted: Version) -> Claim:
        below = max((number for number in self._numbers if number < wanted), default=None)
        above = min((number for number in self._numbers if number > wanted), default=None)
        release = self._numbers[min(self._numbers) if below is None else below]
        if below is None or above is None:
            sentence = (
                f"{self.engine} {version} is not known to kvplan; rules of {release} were used"
            )
        else:
            newer = self._numbers[above]
            may = [row.sentence for row in self.changes_between(version, newer)]
            rest = f"; what may differ: {'; '.join(may)}" if may else ", which plan alike"
            sentence = (
                f"{self.engine} {version} was not looked at; its rules lie between {release} and "
                f"{newer}{rest}"
            )
        return Claim(how=NEAREST, release=release, sentence=sentence)
