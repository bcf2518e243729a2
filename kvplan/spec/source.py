"""YAML text into plain data, with the place of every value, and nothing that can harm.

Specs are small, flat and written by hand, so what YAML offers beyond that is refused: anchors and
aliases (a bomb is made of them), tags, duplicate keys, several documents, more than a mebibyte.
The parser's events are used directly, because they carry positions and never recurse.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

from kvplan.errors import SpecError

MAX_BYTES = 2**20
MAX_DEPTH = 16
_TOO_LARGE = 2**64
# YAML 1.1 also reads `1:30` (as 90), `0b11`, `0x20`, `017` (as 15) and `1_0` as numbers.
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*|[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?|\.(?i:inf|nan))")

Path_ = tuple[str | int, ...]
Locate = Callable[[Path_], str]


class Document(NamedTuple):
    """Plain data (dict, list, str, int, float, bool, None) and where each part stands.

    Attributes:
        data: the root value.
        name: the file's name as the user gave it.
        places: path of a value, or of a key followed by `"?"`, -> (line, column), both from 1.
    """

    data: Any
    name: str
    places: dict[Path_, tuple[int, int]]

    def locate(self, path: Path_) -> str:
        """`file:line:column` of the value at `path`, or of its nearest parent that has a place."""
        while path and path not in self.places:
            path = path[:-1]
        line, column = self.places.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"


def read_bytes(path: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Raises:
        SpecError: missing, a directory, a device, unreadable, empty or too large.
    """
    try:
        kind = os.stat(path)
        if stat.S_ISDIR(kind.st_mode):
            raise SpecError("is a directory, not a file", where=path)
        if not stat.S_ISREG(kind.st_mode):
            raise SpecError("is not a regular file", where=path)
        if kind.st_size > limit:
            raise SpecError(
                f"is {kind.st_size:,} bytes; more than {limit:,} cannot be right", where=path
            )
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise SpecError("does not exist", where=path) from None
    except (OSError, ValueError) as error:  # ValueError: an embedded NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"cannot be read: {reason}", where=path) from None
    if not data.strip():
        raise SpecError("is empty", where=path)
    return data


def decode(data: bytes, name: str) -> str:
    """UTF-8 text of a file.

    Raises:
        SpecError: not UTF-8, or with NUL bytes: not a text file.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"is not text (byte {error.start} is not UTF-8)", where=name) from None
    if "\0" in text:
        raise SpecError("is not text (it holds NUL bytes)", where=name)
    return text


def parse_yaml(text: str, name: str) -> Document:
    """Parse one YAML document.

    Raises:
        SpecError: no valid YAML, or one of the refused constructs, with its place.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(name)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise SpecError(f"is not valid YAML: {error.problem}", where=where) from None
    except yaml.YAMLError as error:
        raise SpecError(f"is not valid YAML: {' '.join(str(error).split())}", where=name) from None
    return Document(builder.root, name, builder.places)


class _Builder:
    """Plain data out of parser events, with a stack instead of recursion."""

    def __init__(self, name: str) -> None:
        import yaml

        self.name = name
        self.places: dict[Path_, tuple[int, int]] = {}
        self.root: Any = None
        self._stack: list[tuple[Path_, Any]] = []  # (path, open container)
        self._key: list[str | None] = []  # per open container: the key whose value comes next
        self._documents = 0
        self._yaml = yaml
        self._scalars: Any = yaml.SafeLoader("")

    def take(self, event: Any) -> None:
        """Take one parser event."""
        y = self._yaml
        if isinstance(event, y.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._error(event, "a second document starts here; a spec is one document")
        elif isinstance(event, y.AliasEvent):
            raise self._error(event, f"alias *{event.anchor} is not allowed; write the value out")
        elif isinstance(event, (y.MappingEndEvent, y.SequenceEndEvent)):
            self._stack.pop()
            self._key.pop()
        elif isinstance(event, y.NodeEvent):
            self._node(event)

    def _node(self, event: Any) -> None:
        y = self._yaml
        if event.anchor is not None:
            raise self._error(event, f"anchor &{event.anchor} is not allowed; write the value out")
        if event.tag is not None:
            raise self._error(event, f"tag {event.tag} is not allowed")
        if isinstance(event, y.ScalarEvent):
            self._place(event, self._scalar(event))
            return
        if len(self._stack) >= MAX_DEPTH:
            raise self._error(event, f"is nested deeper than {MAX_DEPTH} levels")
        container: Any = {} if isinstance(event, y.MappingStartEvent) else []
        path = self._place(event, container)
        self._stack.append((path, container))
        self._key.append(None)

    def _place(self, event: Any, value: Any) -> Path_:
        mark = (event.start_mark.line + 1, event.start_mark.column + 1)
        if not self._stack:
            self.root = value
            self.places[()] = mark
            return ()
        path, container = self._stack[-1]
        if isinstance(container, list):
            here = (*path, len(container))
            container.append(value)
        elif self._key[-1] is None:
            if not isinstance(value, str):
                raise self._error(event, f"key {value!r} is not a word")
            if value in container:
                raise self._error(event, f"key {value!r} stands twice")
            self._key[-1] = value
            key_path: Path_ = (*path, value, "?")
            self.places[key_path] = mark
            return path
        else:
            here = (*path, self._key[-1])
            container[self._key[-1]] = value
            self._key[-1] = None
        self.places[here] = mark
        return here

    def _scalar(self, event: Any) -> Any:
        if not event.implicit[0]:
            return event.value  # quoted: a string
        tag = self._scalars.resolve(self._yaml.ScalarNode, event.value, (True, False))
        node = self._yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        if tag in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"):
            return event.value
        if tag in _NUMBERS and not _DECIMAL.fullmatch(event.value):
            raise self._error(
                event,
                f"{event.value[:40]} is a number in another notation than the decimal one; write "
                "its digits alone, or quotes around a text",
            )
        if tag == _NUMBERS[0] and len(event.value) > len(str(_TOO_LARGE)) + 1:
            raise self._error(event, "is too large a number")
        try:
            value = self._scalars.construct_object(node)
        except (self._yaml.YAMLError, ValueError):
            return event.value
        if isinstance(value, int) and abs(value) >= _TOO_LARGE:
            raise self._error(event, "is too large a number")
        return value

    def _error(self, event: Any, message: str) -> SpecError:
        mark = event.start_mark
        return SpecError(message, where=f"{self.name}:{mark.line + 1}:{mark.column + 1}")
