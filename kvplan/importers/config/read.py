"""JSON text into plain data, with the place of every key, and nothing that can harm.

A `config.json` comes from strangers, so it is read without recursion and within bounds: size,
depth, number of values, length of a number. A key that stands twice is an error, because the two
readers of such a file need not agree on which one counts. `Infinity` and `NaN` are no JSON, but
published files hold them (`time_step_limit` of Nemotron-H); they are read and can never be a fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.errors import ImportRefused, SpecError
from kvplan.spec.source import Path_, decode, read_bytes

MAX_BYTES = 8 * 2**20
MAX_DEPTH = 64
MAX_VALUES = 200_000  # the largest published file (a list of quantised layers) holds 67,072
MAX_TEXT = 2**20

_SPACE = re.compile(r"[ \t\n\r]*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?(?![\w.])", re.ASCII)
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_WORD = re.compile("|".join(_WORDS) + r"(?![\w])")
_LONGEST_NUMBER = 400


class Source(NamedTuple):
    """Plain data and where its keys stand.

    Attributes:
        data: the root object.
        name: the file's name as the user gave it, None for data that came from no file.
        offsets: path of a key -> its offset in the text.
        text: the text it was read from.
    """

    data: dict[str, Any]
    name: str | None = None
    offsets: Mapping[Path_, int] = {}
    text: str = ""

    def locate(self, path: Path_ = ()) -> str | None:
        """`file:line:column` of the key at `path` or of its nearest parent, None without a file."""
        if self.name is None:
            return None
        while path and path not in self.offsets:
            path = path[:-1]
        return place(self.name, self.text, self.offsets.get(path, 0))


def place(name: str, text: str, offset: int) -> str:
    """`name:line:column` of an offset, both counted from 1."""
    line = text.count("\n", 0, offset) + 1
    return f"{name}:{line}:{offset - text.rfind(chr(10), 0, offset)}"


def read_file(path: str) -> Source:
    """Read a JSON file that holds one object.

    Raises:
        ImportRefused: it cannot be read, or is no such file.
    """
    try:
        text = decode(read_bytes(path, MAX_BYTES), path)
    except SpecError as error:
        raise ImportRefused(error.message, where=error.where) from None
    return parse(text, path)


def parse(text: str, name: str) -> Source:
    """Parse JSON text that holds one object.

    Raises:
        ImportRefused: no valid JSON, no object, a key twice, or beyond the bounds.
    """
    if len(text) > MAX_BYTES:
        raise ImportRefused(
            f"is longer than the {MAX_BYTES:,} characters that can be right", where=name
        )
    builder = _Builder(text, name)
    data = builder.build()
    if not isinstance(data, dict):
        raise ImportRefused("is no JSON object", where=f"{name}:1:1")
    return Source(data, name, builder.offsets, text)


class _Builder:
    """One pass over the text with a stack of open containers instead of recursion."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.at = 0
        self.values = 0
        self.offsets: dict[Path_, int] = {}

    def error(self, message: str, at: int | None = None) -> ImportRefused:
        offset = self.at if at is None else at
        return ImportRefused(message, where=place(self.name, self.text, offset))

    def skip(self) -> str:
        """Move past white space; the next character, empty at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def build(self) -> Any:
        stack: list[tuple[Path_, Any]] = []
        root: Any = None
        path: Path_ = ()
        while True:
            self.skip()
            value = self.value()
            if not stack:
                root = value
            if isinstance(value, (dict, list)) and not self.empty(value):
                if len(stack) >= MAX_DEPTH:
                    raise self.error(f"is nested deeper than {MAX_DEPTH} levels")
                self.attach(stack, path, value)
                stack.append((path, value))
            else:
                self.attach(stack, path, value)
                if not self.close(stack):
                    return root
            parent, container = stack[-1]
            path = (*parent, self.key(parent, container))

    def attach(self, stack: list[tuple[Path_, Any]], path: Path_, value: Any) -> None:
        if stack:
            container = stack[-1][1]
            if isinstance(container, list):
                container.append(value)
            else:
                container[path[-1]] = value

    def empty(self, value: dict[str, Any] | list[Any]) -> bool:
        """True, and the closing bracket passed, for `{}` and `[]`."""
        if self.skip() == ("}" if isinstance(value, dict) else "]"):
            self.at += 1
            return True
        return False

    def close(self, stack: list[tuple[Path_, Any]]) -> bool:
        """Pass the comma after a value, or the brackets it ends; False at the end of the text."""
        while stack:
            end = "]" if isinstance(stack[-1][1], list) else "}"
            found = self.skip()
            if found == ",":
                self.at += 1
                return True
            if found != end:
                raise self.error(f"is not valid JSON: expected ',' or '{end}'")
            self.at += 1
            stack.pop()
        if self.skip():
            raise self.error("is not valid JSON: something follows the last value")
        return False

    def key(self, parent: Path_, container: Any) -> str | int:
        """The next key of an object (its colon passed), or the next index of a list."""
        if isinstance(container, list):
            return len(container)
        self.skip()
        start = self.at
        if self.text[start : start + 1] != '"':
            raise self.error("is not valid JSON: expected a key in double quotes")
        key = self.string()
        if key in container:
            raise self.error(f"key {key!r} stands twice", start)
        if self.skip() != ":":
            raise self.error("is not valid JSON: expected ':'")
        self.at += 1
        here = (*parent, key)
        self.offsets[here] = start
        return key

    def value(self) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise self.error(f"holds more than the {MAX_VALUES:,} values that can be right")
        first = self.text[self.at : self.at + 1]
        if first in ("{", "["):
            self.at += 1
            return {} if first == "{" else []
        if first == '"':
            return self.string()
        word = _WORD.match(self.text, self.at)
        if word:
            self.at = word.end()
            return _WORDS[word.group()]
        return self.number()

    def string(self) -> str:
        start, end = self.at, self.at
        while True:
            end = self.text.find('"', end + 1)
            if end < 0 or end - start > MAX_TEXT:
                raise self.error(f"a text without end, or of more than {MAX_TEXT:,} characters")
            back = end
            while self.text[back - 1] == "\\":
                back -= 1
            if (end - back) % 2 == 0:
                break  # this quote is not escaped
        token = self.text[start : end + 1]
        if _CONTROL.search(token):
            raise self.error("is not valid JSON: a text with control characters")
        try:
            text: str = json.loads(token)
            text.encode()
        except ValueError:  # also a lone surrogate, which no output could print
            raise self.error("is not valid JSON: a text with a broken escape") from None
        self.at = end + 1
        return text

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.error("is not valid JSON: expected a value")
        if match.end() - match.start() > _LONGEST_NUMBER:
            raise self.error(f"a number of more than {_LONGEST_NUMBER} digits")
        self.at = match.end()
        return float(match.group()) if match.group(1) or match.group(2) else int(match.group())
