"""A line of vLLM's own flags, as on its command line, read into options.

    --max-num-seqs 64   --max-num-seqs=64   -tp 2   --no-enable-prefix-caching
    --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'
    --speculative-config.method mtp --speculative-config.num_speculative_tokens 1
    VLLM_KV_CACHE_LAYOUT=BLHNC   the environment's settings, as in front of a shell command

Flags that leave the cache as it is (`--port 8000`) are passed over; see `other_flags`.

Source of the forms: vllm 0.33.0, utils/argparse_utils.py FlexibleArgumentParser.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from kvplan.engines.vllm.options.flags import FALSE, FLAGS, TRUE, Flag, find_flag, unknown
from kvplan.engines.vllm.options.other_flags import (
    ONE,
    SWITCH,
    check_other,
    check_setting,
    find_other,
)
from kvplan.errors import UsageError


def split_engine_args(text: str) -> dict[str, str]:
    """`--engine-args` as options.

    Raises:
        UsageError: a flag that vLLM lacks or that is not modelled, a missing value, a stray word.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"engine arguments {text!r} cannot be split: {error}") from error
    options: dict[str, str] = {}
    parts: dict[str, dict[str, Any]] = {}  # values given key by key
    index = 0
    while index < len(words):
        word, equals, joined = words[index].partition("=")
        index += 1
        if equals and re.fullmatch(r"[A-Z][A-Z0-9_]*", word):
            _setting(options, word, joined)
            continue
        if not word.startswith("-"):
            raise UsageError(f"engine argument {word!r} follows no flag")
        word, dot, key = word.partition(".")
        found = find_flag(word)
        if found is None:
            values = [joined] if equals else words[index:]
            taken = _pass_over(word, key, values, joined=bool(equals))
            index += 0 if equals else taken
            continue
        flag, positive = found
        values = [joined] if equals else _values(words[index:], flag)
        index += 0 if equals else len(values)
        value = " ".join(values)
        if not value and not flag.is_switch:
            raise UsageError(f"engine argument {word}{dot}{key} lacks its value")
        if dot:
            _put(parts.setdefault(flag.name, {}), key, value, flag)
            options[flag.name] = json.dumps(parts[flag.name])
            continue
        if flag.is_switch:
            value = "true" if flag.parse(value or "true") is positive else "false"
        options[flag.name] = value
    return options


def _setting(options: dict[str, str], name: str, text: str) -> None:
    """A setting of the environment: an option if the cache goes by it."""
    flag = FLAGS.get(name)
    if flag is None:
        check_setting(name)
    else:
        options[name] = text


def _pass_over(word: str, key: str, words: list[str], *, joined: bool) -> int:
    """How many of the words behind a flag that kvplan does not read are its value."""
    found = find_other(word)
    if found is None:
        raise unknown(word)
    flag, positive = found
    values = words if joined else [] if flag.values == SWITCH else _until_flag(words)
    if flag.values == ONE:
        values = values[:1]
        if not values:
            raise UsageError(f"engine argument {word} lacks its value")
    check_other(flag, " ".join(values), positive=positive, key=key)
    return len(values)


def _until_flag(words: list[str]) -> list[str]:
    """The words up to the next flag; a negative number is none."""
    found = []
    for word in words:
        if word.startswith("-") and re.fullmatch(r"-\d+(\.\d+)?", word) is None:
            break
        found.append(word)
    return found


def _values(words: list[str], flag: Flag) -> list[str]:
    """The words behind a flag that are its value."""
    found: list[str] = []
    for word in _until_flag(words):
        if found and not flag.is_list:
            break
        if flag.is_switch and word.lower() not in TRUE + FALSE:
            break
        found.append(word)
    return found


def _put(into: dict[str, Any], key: str, text: str, flag: Flag) -> None:
    """Set `a.b` in nested mappings; a value that is JSON is read as such, else it is a word."""
    if not flag.is_mapping or not all(key.split(".")):
        raise UsageError(f"engine argument {flag.spellings[0]}.{key}: {flag.name} has no parts")
    *outer, last = key.split(".")
    for name in outer:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            raise UsageError(f"engine argument {flag.spellings[0]}.{key}: {name} is a value")
    try:
        into[last] = json.loads(text)
    except (ValueError, RecursionError):
        into[last] = text
