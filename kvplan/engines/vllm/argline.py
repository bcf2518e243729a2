"""A line of vLLM's own flags, as on its command line, read into options.

    --max-num-seqs 64   --max-num-seqs=64   -tp 2   --no-enable-prefix-caching
    --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'
    --speculative-config.method mtp --speculative-config.num_speculative_tokens 1

Source of the forms: vllm 0.33.0, utils/argparse_utils.py FlexibleArgumentParser.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from kvplan.engines.vllm.flags import FALSE, TRUE, Flag, find_flag, unknown
from kvplan.errors import UsageError


def split_engine_args(text: str) -> dict[str, str]:
    """`--engine-args` as options.

    Raises:
        UsageError: a flag that is not in the table, a missing value, a stray word.
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
        if not word.startswith("-"):
            raise UsageError(f"engine argument {word!r} follows no flag")
        word, dot, key = word.partition(".")
        found = find_flag(word)
        if found is None:
            raise unknown(word)
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


def _values(words: list[str], flag: Flag) -> list[str]:
    """The words behind a flag that are its value."""
    found: list[str] = []
    for word in words:
        if word.startswith("-") and re.fullmatch(r"-\d+(\.\d+)?", word) is None:
            break
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
    except ValueError:
        into[last] = text
