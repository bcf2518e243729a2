"""One row of an engine's flag table: what a flag is called, takes, defaults to, and means.

Spellings, how its value is read, its default in each release, the releases that have it, and what
it means for the cache: kvplan reads it, it leaves the cache as it is, or it may change the cache in
a way that kvplan does not follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.engines.kit.versions import as_version
from kvplan.named_tuple import NamedTuple
from kvplan.record import Record

# How many words follow a flag: none; none, or true or false; one; any number.
SWITCH, BOOLEAN, ONE, SEVERAL = "switch", "boolean", "one", "several"
# What a flag means for the cache.
READ, NONE, UNKNOWN = "read", "none", "unknown"
# Which of several values of one flag counts: the last, or all of them with a comma between.
LAST, ALL = "last", "all"


class Flag(Record):
    """One row.

    Attributes:
        name: the engine's name in its configuration.
        spellings: as on a command line, the long one first; () for an environment variable.
        takes: how many words follow it.
        read: text -> value; raises ValueError or json's error on a text that it cannot take.
        mapping: the value is a JSON object, which may be given key by key (`--x.key value`).
        default: value when not given; None when the engine settles it later.
        defaults: (release, value) of every release that changed the default, oldest first.
        since, until: first and last release that has it; None: all.
        effect: what it means for the cache.
        harmless: pattern of the values with which a flag of unknown effect has none.
        instead: what to write instead of a flag of unknown effect.
        repeats: which of several values counts.
        origin: where the engine declares or settles it.
    """

    name: str
    spellings: tuple[str, ...] = ()
    takes: str = ONE
    read: Callable[[str], Any] = str
    mapping: bool = False
    default: Any = None
    defaults: tuple[tuple[str, Any], ...] = ()
    since: str | None = None
    until: str | None = None
    effect: str = READ
    harmless: str | None = None
    instead: str | None = None
    repeats: str = LAST
    origin: str = ""

    @property
    def is_switch(self) -> bool:
        """True for a flag that needs no value and that `--no-` turns round."""
        return self.takes in (SWITCH, BOOLEAN)

    @property
    def shown(self) -> str:
        """How messages call it."""
        return self.spellings[0] if self.spellings else self.name

    def default_in(self, version: str) -> Any:
        """The default of a release."""
        value, wanted = self.default, as_version(version)
        for since, changed in self.defaults:
            first = as_version(since)
            if wanted is not None and first is not None and first <= wanted:
                value = changed
        return value

    def is_in(self, version: str) -> bool:
        """Whether a release has it."""
        wanted = as_version(version)
        first, last = (as_version(text) if text else None for text in (self.since, self.until))
        if wanted is None:
            return True
        return (first is None or first <= wanted) and (last is None or wanted <= last)


class Meaning(NamedTuple):
    """What a word means: the flag, whether positively, and a value joined to a short spelling."""

    flag: Flag
    positive: bool = True
    joined: str | None = None
