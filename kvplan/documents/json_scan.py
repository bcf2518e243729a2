"""What is wrong with a JSON text, and where its keys stand: a scan by hand, for whoever prints it.

The standard library's parser is ten times as fast and says neither where a key stands nor, in the
same words for every release of Python, what is wrong. So this scan runs only when it is asked.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kvplan.documents.document import Path, Place, Places, Problem, located
from kvplan.documents.policy import Policy
from kvplan.errors import InputError

LONGEST_NUMBER = 400

_SPACE = re.compile(r"[ \t\n\r]*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?(?![\w.])", re.ASCII)
_WORD = re.compile(r"(?:true|false|null|NaN|-?Infinity)(?![\w])")


class JsonPlaces(Places):
    """Places in a JSON text that was read, looked up at the first question.

    Of a key and its value, the key stands for both; an item of a list stands for itself.
    """

    def __init__(self, text: str, policy: Policy) -> None:
        self._text = text
        self._policy = policy
        self._offsets: dict[Path, int] | None = None

    def find(self, path: Path, *, key: bool = False) -> Place:
        """The place of a key or item, or of its nearest parent."""
        if self._offsets is None:
            scan = Scan(self._text, "", self._policy.replaced(twice=True))
            scan.run()
            self._offsets = scan.offsets
        while path and path not in self._offsets:
            path = path[:-1]
        return place_of(self._text, self._offsets.get(path, 0))


def place_of(text: str, offset: int) -> Place:
    """Line and column of an offset, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class Scan:
    """One pass over a text with a stack of open containers instead of recursion.

    Attributes:
        offsets: path -> where its key, or the item of a list, stands in the text.
        problems: keys that stand twice, where the policy lets them.
    """

    def __init__(self, text: str, name: str, policy: Policy) -> None:
        self.text = text
        self.name = name
        self.policy = policy
        self.at = 0
        self.values = 0
        self.offsets: dict[Path, int] = {}
        self.problems: list[Problem] = []

    def run(self) -> None:
        """Scan the whole text.

        Raises:
            InputError: no valid JSON, or something that the policy refuses, with its place.
        """
        stack: list[tuple[Path, str, int]] = []  # (path, closing bracket, values so far)
        path: Path = ()
        while True:
            self.skip()
            end = self.value()
            if end is None:
                if not self.close(stack):
                    return
            elif self.skip() == end:
                self.at += 1
                if not self.close(stack):
                    return
            else:
                if len(stack) >= self.policy.max_depth:
                    raise self.error(f"is nested deeper than {self.policy.max_depth} levels")
                stack.append((path, end, 0))
            parent, end, count = stack[-1]
            stack[-1] = (parent, end, count + 1)
            if end == "}":
                path = (*parent, self.key(parent))
            else:
                path = (*parent, count)
                self.skip()
                self.offsets[path] = self.at

    def error(self, message: str, at: int | None = None) -> InputError:
        """What is wrong at an offset."""
        place = place_of(self.text, self.at if at is None else at)
        return self.policy.error(message, where=located(self.name, place))

    def skip(self) -> str:
        """Move past white space; the next character, empty at the end."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def close(self, stack: list[tuple[Path, str, int]]) -> bool:
        """Pass the comma after a value, or the brackets it ends; False at the end of the text."""
        while stack:
            end = stack[-1][1]
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

    def key(self, parent: Path) -> str:
        """The next key of an object, its colon passed."""
        self.skip()
        start = self.at
        if self.text[start : start + 1] != '"':
            raise self.error("is not valid JSON: expected a key in double quotes")
        key = self.string()
        path = (*parent, key)
        if path in self.offsets:
            message = f"key {key!r} stands twice"
            if not self.policy.twice:
                raise self.error(message, start)
            self.problems.append(Problem(message, place_of(self.text, start)))
            self.forget(path)
        if self.skip() != ":":
            raise self.error("is not valid JSON: expected ':'")
        self.at += 1
        self.offsets[path] = start
        return key

    def forget(self, path: Path) -> None:
        """Drop what an earlier value of a key held: the last one counts."""
        length = len(path)
        self.offsets = {k: v for k, v in self.offsets.items() if k[:length] != path}

    def value(self) -> str | None:
        """Pass a scalar, or an opening bracket, whose closing one is returned."""
        self.values += 1
        if self.values > self.policy.max_values:
            most = self.policy.max_values
            raise self.error(f"holds more than the {most:,} values that can be right")
        first = self.text[self.at : self.at + 1]
        if first in ("{", "["):
            self.at += 1
            return "}" if first == "{" else "]"
        if first == '"':
            self.string()
            return None
        word = _WORD.match(self.text, self.at)
        if word:
            self.at = word.end()
            return None
        self.number()
        return None

    def string(self) -> str:
        """Pass a text in double quotes; the text."""
        start, end = self.at, self.at
        while True:
            end = self.text.find('"', end + 1)
            if end < 0:
                raise self.error("is not valid JSON: a text without end")
            back = end
            while self.text[back - 1] == "\\":
                back -= 1
            if (end - back) % 2 == 0:
                break  # this quote is not escaped
        token = self.text[start : end + 1]
        if _CONTROL.search(token):
            raise self.error("is not valid JSON: a text with control characters")
        try:
            text: Any = json.loads(token)
            text.encode()
        except ValueError:  # also a lone surrogate, which no output could print
            raise self.error("is not valid JSON: a text with a broken escape") from None
        self.at = end + 1
        return str(text)

    def number(self) -> None:
        """Pass a number."""
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.error("is not valid JSON: expected a value")
        if match.end() - match.start() > LONGEST_NUMBER and not (match[1] or match[2]):
            raise self.error(f"a number of more than {LONGEST_NUMBER} digits")
        self.at = match.end()
