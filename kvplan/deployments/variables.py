"""References to variables, and what a file defines.

    $(NAME)  Kubernetes        ${NAME} $NAME ${NAME:-default}  shells, compose, systemd, macros
    $(command) $((1 + 1)) `command` {{ template }} "$@"        nobody but the program can know

Each reference in a text is replaced by one character of a private range, so the text can be split
into words and flags as if it were plain; what a reference stands for is looked up at the end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.deployments.facts import ENV, LITERAL, UNRESOLVED
from kvplan.deployments.text import Mapped
from kvplan.documents.document import Place

_FIRST, _MOST = 0xF0000, 0xFFF0
MARK = re.compile("[\U000f0000-\U000fffff]")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_SIMPLE = re.compile(r"[A-Za-z_]\w*|[@*#?0-9]")
_NAMED = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")
_COMPOSED = re.compile(r"([A-Za-z_][\w.]*(?:-[\w.]+(?=\}?$))?|[0-9@*#]+)(:?[-=?+])?")
_DEEPEST = 16  # definitions that stand on each other

# Who replaces references in a text.
KUBERNETES, COMPOSE, SHELL = "kubernetes", "compose", "shell"
SCRIPTED = "scripted"  # as Kubernetes, and what a shell replaces is left for it

HOST = "host "  # in front of names that compose looks up on the host, not in the container


class Ref(NamedTuple):
    """One reference.

    Attributes:
        name: of the variable; empty for what nobody but the program can know.
        default: what stands in its place where it is not defined.
        place: where it stands.
    """

    name: str
    default: str | None
    place: Place


class Given(NamedTuple):
    """A definition: its text, None where it is known to come from elsewhere, and its place."""

    text: str | None
    place: Place


class Resolved(NamedTuple):
    """What a text says once its references are followed."""

    text: str | None
    status: str
    place: Place | None = None


class Refs:
    """The references met in one file."""

    def __init__(self) -> None:
        self._all: list[Ref] = []

    def add(self, ref: Ref) -> str:
        """The character that stands for a reference."""
        if len(self._all) < _MOST:
            self._all.append(ref)
        return chr(_FIRST + len(self._all) - 1)

    def of(self, char: str) -> Ref:
        """What a character stands for; one that nobody gave out stands for nothing known."""
        index = ord(char) - _FIRST
        return self._all[index] if index < len(self._all) else Ref("", None, (1, 1))

    def encode(self, text: Mapped, style: str) -> Mapped:
        """A text with its references replaced."""
        raw = text.text
        if "$" not in raw and "{{" not in raw and "`" not in raw:
            return text
        parts: list[str] = []
        marks: list[tuple[int, int, int]] = []
        length = at = 0

        def put(piece: str, begin: int, end: int) -> None:
            nonlocal length
            stretch = text.part(begin, end)
            if len(piece) == end - begin:
                marks.extend((offset + length, *place) for offset, place in stretch.marks())
            else:
                marks.append((length, *text.place(begin)))
            parts.append(piece)
            length += len(piece)

        while at < len(raw):
            following = _next(raw, at)
            if following > at:
                put(raw[at:following], at, following)
                at = following
                continue
            if style == COMPOSE and raw.startswith("$$", at):
                put("$", at, at + 2)
                at += 2
                continue
            found = reference(raw, at, style)
            if found is None:
                put(raw[at], at, at + 1)
                at += 1
                continue
            end, name, default = found
            if style == COMPOSE and name:
                name = HOST + name
            put(self.add(Ref(name, default, text.place(at))), at, end)
            at = end
        return Mapped("".join(parts), marks)


_STARTS = re.compile(r"[$`]|\{\{")


def _next(raw: str, at: int) -> int:
    found = _STARTS.search(raw, at)
    return found.start() if found else len(raw)


def reference(raw: str, at: int, style: str) -> tuple[int, str, str | None] | None:
    """The end of a reference that begins here, its name and default; None where none does."""
    if raw.startswith("{{", at):
        end = raw.find("}}", at)
        return None if end < 0 else (end + 2, "", None)
    if style == SCRIPTED:
        found = _NAMED.match(raw, at)
        return (found.end(), found[1], None) if found else None
    if raw[at] == "`":
        end = raw.find("`", at + 1)
        return None if end < 0 or style != SHELL else (end + 1, "", None)
    following = raw[at + 1 : at + 2]
    if following == "(":
        end = _closing(raw, at + 1, "(", ")")
        name = raw[at + 2 : end - 1]
        known = style in (KUBERNETES, SHELL) and _NAME.fullmatch(name)
        return end, name if known else "", None
    if following == "{":
        end = _closing(raw, at + 1, "{", "}")
        inside = raw[at + 2 : end - 1]
        found = _COMPOSED.match(inside)
        if found is None or style == KUBERNETES:
            return end, "", None
        name, how = found[1], found[2]
        if how is None:
            return end, name if found.end() == len(inside) else "", None
        rest = inside[found.end() :]
        if how.endswith("+"):
            return end, "", None
        return end, name, None if how.endswith("?") else rest
    found = _SIMPLE.match(raw, at + 1)
    if found is None:
        return None
    name = found.group()
    known = style != KUBERNETES and _NAME.fullmatch(name)
    return found.end(), name if known else "", None


def _closing(raw: str, at: int, opening: str, closing: str) -> int:
    """The offset behind the bracket that closes one; the end of the text where none does."""
    depth = 0
    for index in range(at, len(raw)):
        if raw[index] == opening:
            depth += 1
        elif raw[index] == closing:
            depth -= 1
            if not depth:
                return index + 1
    return len(raw)


class Scope:
    """What names stand for, with an outer scope behind."""

    def __init__(self, refs: Refs, outer: Scope | None = None) -> None:
        self.refs = refs
        self._outer = outer
        self._names: dict[str, Given] = {}

    def define(self, name: str, text: str | None, place: Place) -> None:
        """Give a name its text; the last one counts."""
        self._names[name] = Given(text, place)

    def find(self, name: str) -> Given | None:
        """The definition of a name."""
        found = self._names.get(name)
        if found is None and self._outer is not None:
            return self._outer.find(name)
        return found

    def names(self) -> dict[str, Given]:
        """Every definition, the outer scope's too."""
        return (self._outer.names() if self._outer else {}) | self._names

    def resolve(self, text: str, depth: int = 0) -> Resolved:
        """Follow every reference of a text."""
        if MARK.search(text) is None:
            return Resolved(text, LITERAL)
        if depth > _DEEPEST or len(text) > 2**16:
            return Resolved(None, UNRESOLVED)
        parts: list[str] = []
        place: Place | None = None
        at = 0
        for mark in MARK.finditer(text):
            parts.append(text[at : mark.start()])
            at = mark.end()
            value, place = self._follow(self.refs.of(mark.group()), depth)
            if value is None:
                return Resolved(None, UNRESOLVED)
            parts.append(value)
        parts.append(text[at:])
        whole = len(text) == 1
        return Resolved("".join(parts), ENV, place if whole else None)

    def _follow(self, ref: Ref, depth: int) -> tuple[str | None, Place | None]:
        given = self.find(ref.name) if ref.name else None
        if given is not None:
            if given.text is None:
                return None, None
            found = self.resolve(given.text, depth + 1)
            if found.text or ref.default is None:
                return found.text, found.place or given.place
        if ref.default is None:
            return None, None
        style = COMPOSE if ref.name.startswith(HOST) else SHELL
        text = ref.default
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
        default = self.refs.encode(Mapped(text, [(0, *ref.place)]), style)
        found = self.resolve(default.text, depth + 1)
        return found.text, found.place or ref.place
