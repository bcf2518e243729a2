"""Lines of an engine's flags: their arguments in order, each with its place, and what they set.

    --max-num-seqs 64   --max-num-seqs=64   -tp 2   -n2   --no-enable-prefix-caching
    --speculative-config '{"method": "mtp"}'   --speculative-config.method mtp
    VLLM_KV_CACHE_LAYOUT=BLHNC   the environment's settings, as in front of a shell command

`parse` leaves nothing out: a word that the table does not have is an argument without a flag, so a
deployment file can be read whole. `options` is strict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from kvplan.engines.kit.flags import ALL, BOOLEAN, NONE, ONE, READ, SEVERAL, SWITCH, Flag
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import FALSE, TRUE
from kvplan.engines.kit.words import Word
from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple

_SETTING = re.compile(r"[A-Z][A-Z0-9_]*")
_NUMBER = re.compile(r"-\d+(\.\d+)?")


class Argument(NamedTuple):
    """One argument of a line.

    Attributes:
        flag: None for a word that follows no flag, and for a flag that the table does not have.
        word: its first word, with its place.
        values: the words that are its value; with `=` or joined, the rest of the first.
        positive: False for `--no-x`.
        key: `a.b` of `--flag.a.b value`.
    """

    flag: Flag | None
    word: Word
    values: tuple[Word, ...] = ()
    positive: bool = True
    key: str = ""

    @property
    def text(self) -> str:
        """The value's words, with a blank between."""
        return " ".join(word.text for word in self.values)

    @property
    def spelled(self) -> str:
        """The flag as it was written, without its value."""
        return self.word.text.partition("=")[0]


def parse(table: Table, words: Sequence[Word]) -> tuple[Argument, ...]:
    """The arguments of a line, in its order; nothing is checked but abbreviations.

    Raises:
        UsageError: an abbreviation of several flags.
    """
    found: list[Argument] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        head, equals, tail = word.text.partition("=")
        joined = (word._replace(text=tail, column=word.column + len(head) + 1),)
        if equals and _SETTING.fullmatch(head):
            found.append(Argument(table.by_name.get(head), word, joined))
            continue
        if not head.startswith("-") or _NUMBER.fullmatch(head):
            found.append(Argument(None, word))
            continue
        spelled, _, key = head.partition(".")
        meant = table.meant(spelled, word.where)
        if meant is None:
            values = joined if equals else until_flag(words[index:])
            index += 0 if equals else len(values)
            found.append(Argument(None, word, values))
            continue
        flag, positive, rest = meant
        if rest is not None:
            values = (word._replace(text=word.text[2:], column=word.column + 2),)
        elif equals:
            values = joined
        else:
            values = _values(words[index:], flag)
            index += len(values)
        found.append(Argument(flag, word, values, positive, key))
    return tuple(found)


def options(table: Table, arguments: Iterable[Argument]) -> dict[str, str]:
    """The flags that are read, by name; every other argument is checked and passed over.

    The last of several values counts, and values given key by key after whole ones.

    Raises:
        UsageError: a flag that the engine lacks or that is not modelled, a missing value, a
            stray word.
    """
    options: dict[str, str] = {}
    parts: dict[str, dict[str, Any]] = {}  # values given key by key
    for argument in arguments:
        flag = argument.flag
        if flag is None or flag.effect != READ:
            check(table, argument)
            continue
        text = argument.text
        if not text and not flag.is_switch:
            raise _lacks(argument)
        if argument.key:
            _put(parts.setdefault(flag.name, {}), argument, text)
            continue
        if flag.is_switch:
            same = table.value(flag, text or "true", argument.word.where) is argument.positive
            text = "true" if same else "false"
        elif flag.repeats == ALL and flag.name in options:
            text = f"{options[flag.name]},{text}"
        options[flag.name] = text
    return options | {name: json.dumps(value) for name, value in parts.items()}


def check(table: Table, argument: Argument) -> None:
    """Pass an argument over that is not read, if the cache is the same with it.

    Raises:
        UsageError: it is not modelled, the engine does not have it, or lacks its value.
    """
    flag, where = argument.flag, argument.word.where
    if flag is None:
        head, equals, _ = argument.word.text.partition("=")
        if equals and _SETTING.fullmatch(head):
            if not table.ignores(head):
                raise table.not_modelled(head, table.instead.get(head), where)
            return
        if head.startswith("-"):
            raise table.unknown(head.partition(".")[0], where)
        raise UsageError(f"engine argument {argument.word.text!r} follows no flag", where=where)
    if flag.takes == ONE and not argument.values:
        raise _lacks(argument)
    if flag.effect == NONE or not argument.positive:
        return
    value = argument.text.strip()
    if flag.harmless and not argument.key and re.fullmatch(flag.harmless, value, re.DOTALL):
        return
    raise table.not_modelled(flag.shown, flag.instead, where)


def _lacks(argument: Argument) -> UsageError:
    message = f"engine argument {argument.spelled} lacks its value"
    return UsageError(message, where=argument.word.where)


def until_flag(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words up to the next flag; a negative number is none."""
    for index, word in enumerate(words):
        if word.text.startswith("-") and _NUMBER.fullmatch(word.text) is None:
            return tuple(words[:index])
    return tuple(words)


def _values(words: Sequence[Word], flag: Flag) -> tuple[Word, ...]:
    """The words behind a flag that are its value."""
    if flag.takes == SWITCH:
        return ()
    values = until_flag(words if flag.takes == SEVERAL else words[:1])
    if flag.takes == BOOLEAN and values and values[0].text.lower() not in TRUE + FALSE:
        return ()
    return values


def _put(into: dict[str, Any], argument: Argument, text: str) -> None:
    """Set `a.b` in nested mappings; a value that is JSON is read as such, else it is a word."""
    flag, key, where = argument.flag, argument.key, argument.word.where
    if flag is None or not flag.mapping or not all(key.split(".")):
        name = argument.spelled if flag is None else flag.name
        raise UsageError(f"engine argument {argument.spelled}: {name} has no parts", where=where)
    *outer, last = key.split(".")
    for name in outer:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            raise UsageError(f"engine argument {argument.spelled}: {name} is a value", where=where)
    try:
        into[last] = json.loads(text)
    except (ValueError, RecursionError):
        into[last] = text
