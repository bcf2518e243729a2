"""An engine's flags as one table: which flag a word means, and the value that a text gives it.

    --max-num-seqs   --max_num_seqs   --max-num-se   -tp   -n2   --no-enable-prefix-caching

Lines of flags are read in `argline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kvplan.engines.kit.flags import ONE, READ, SEVERAL, Flag, Meaning
from kvplan.errors import UsageError
from kvplan.record import Record

_SHOWN = 120  # characters of a value that an error repeats


class Table(Record):
    """The flags of one engine.

    Attributes:
        engine: its name.
        flags: those that kvplan reads.
        rest: the others, made when a word is first looked up among them.
        underscores: `--max_num_seqs` is `--max-num-seqs`.
        abbreviates: a prefix that only one flag has is that flag (argparse).
        opposites: `--enable-x` and `--disable-x` are each other's negation.
        special: spellings that no row can hold, such as `-O3`.
        ignores: settings of the environment that leave the cache as it is.
        instead: what to write instead of a setting of the environment.
        help: the command that lists the engine's own flags.
    """

    engine: str
    flags: tuple[Flag, ...]
    rest: Callable[[], tuple[Flag, ...]] = tuple
    underscores: bool = True
    abbreviates: bool = True
    opposites: bool = True
    special: Callable[[str], Meaning | None] = lambda word: None
    ignores: Callable[[str], bool] = lambda name: True
    instead: Mapping[str, str] = MappingProxyType({})
    help: str = ""

    @cached_property
    def by_name(self) -> dict[str, Flag]:
        """The flags that are read, by their names."""
        return {flag.name: flag for flag in self.flags}

    @cached_property
    def _read(self) -> dict[str, Flag]:
        return {spelling: flag for flag in self.flags for spelling in flag.spellings}

    @cached_property
    def _all(self) -> dict[str, Flag]:
        return {s: flag for flag in self.rest() for s in flag.spellings} | self._read

    def _spellings(self) -> Iterator[dict[str, Flag]]:
        yield self._read
        yield self._all  # made only when the first does not have the word

    def find(self, text: str) -> Meaning | None:
        """The flag that a name or a whole spelling means."""
        if text in self.by_name:
            return Meaning(self.by_name[text])
        bare = text.lstrip("-")
        if self.underscores:
            bare = bare.replace("_", "-")
        dashes = text[: len(text) - len(text.lstrip("-"))] or "--"
        for spellings in self._spellings():
            if (flag := spellings.get(dashes + bare)) is not None:
                return Meaning(flag)
            if (flag := self.by_name.get(bare.replace("-", "_"))) is not None:
                return Meaning(flag)
            if (flag := spellings.get("--" + self._opposite(bare))) is not None and flag.is_switch:
                return Meaning(flag, positive=False)
        return None

    def _opposite(self, bare: str) -> str:
        if bare.startswith("no-"):
            return bare[3:]
        for first, second in (("enable-", "disable-"), ("disable-", "enable-")):
            if self.opposites and bare.startswith(first):
                return second + bare[len(first) :]
        return ""

    def meant(self, word: str, where: str | None = None) -> Meaning | None:
        """The flag that a word of a line means: whole, abbreviated, or with its value joined.

        Raises:
            UsageError: the beginning of several flags.
        """
        found = self.special(word) or self.find(word)
        if found is not None or not self.abbreviates:
            return found
        short = self._all.get(word[:2]) if len(word) > 2 and word[1] != "-" else None
        if short is not None and short.takes in (ONE, SEVERAL):
            return Meaning(short, joined=word[2:])
        wanted = word.replace("_", "-") if self.underscores else word
        if not wanted.startswith("--") or len(wanted) < 3:
            return None
        near: dict[str, Meaning] = {}
        for spelling, flag in self._all.items():
            if spelling.startswith(wanted):
                near[spelling] = Meaning(flag)
            negated = "--no-" + spelling[2:]
            if flag.is_switch and spelling.startswith("--") and negated.startswith(wanted):
                near[negated] = Meaning(flag, positive=False)
        if len({(id(found.flag), found.positive) for found in near.values()}) > 1:
            raise UsageError(
                f"{self.engine} argument {word!r} is the beginning of several flags",
                where=where,
                hint=" ".join(sorted(near)[:4]),
            )
        return next(iter(near.values()), None)

    def values(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Values of `Request.options`: flag names (with `_` or `-`) and texts.

        Raises:
            UsageError: a name that is not in the table, or a text that its flag cannot take.
        """
        values: dict[str, Any] = {}
        for name, text in options.items():
            found = self.find(name)
            if found is None or found.flag.effect != READ:
                raise self.unknown(name)
            value = self.value(found.flag, text)
            values[found.flag.name] = value if found.positive else not value
        return values

    def value(self, flag: Flag, text: str, where: str | None = None) -> Any:
        """The value that a text gives a flag.

        Raises:
            UsageError: the text is not such a value.
        """
        try:
            return flag.read(text)
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            message = f"{self.engine} {flag.shown} cannot be {text!r}"
            raise UsageError(message, where=where) from error

    def unknown(self, name: str, where: str | None = None) -> UsageError:
        """The error for an option that the engine does not have, with the nearest that it has."""
        known = [*self._all, *(flag.name for flag in self.flags if not flag.spellings)]
        wanted = name if name.isupper() else "--" + name.lstrip("-").replace("_", "-")
        close = get_close_matches(wanted, known, 1)
        hint = f"did you mean {close[0]}?" if close else self.help or None
        message = f"{name!r} is not a {self.engine} option that kvplan knows"
        return UsageError(message, where=where, hint=hint)

    def not_modelled(
        self, name: str, instead: str | None = None, where: str | None = None
    ) -> UsageError:
        """The error for what may change the cache in a way that kvplan does not follow."""
        message = f"{self.engine}'s {name} may change the cache and is not modelled"
        return UsageError(message, where=where, hint=instead)
