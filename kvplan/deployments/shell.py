"""A script cut into commands as a shell cuts it, and never run.

Quotes, comments, continued lines, heredocs, `&&`, `;`, `|`, redirections and blocks are followed as
far as words need it. Assignments are kept in order, with the arrays; one inside `if`, `case` or a
loop may not happen, so after it the variable is not known.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import SHELL, Ref, Refs, reference

_ENDS = ";&|\n()"
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)([\w.]+)\1")
_REDIRECT = re.compile(r"\d*(>>?|<)(&[\d-]+|&?[ \t]*)")


class ShellWord(NamedTuple):
    """One word.

    Attributes:
        text: without its quotes.
        line, column: where it begins.
        quoted: whether any of it was.
        inside: the text of a word that holds blanks, which may be a script of its own.
        array: the inside of `NAME=(...)`, when the word is one.
    """

    text: str
    line: int
    column: int
    quoted: bool = False
    inside: Mapped | None = None
    array: Mapped | None = None


class Command(NamedTuple):
    """One simple command.

    Attributes:
        words: its words.
        body: of its heredoc.
        target: of its redirection.
        after: the operator in front of it, where that decides: `&&` or `||`.
    """

    words: tuple[ShellWord, ...]
    body: Mapped | None = None
    target: str = ""
    after: str = ""


class Scanner:
    """Cuts one text.

    Args:
        text: the script, or a line.
        refs: where references are kept.
        operators: False for a line that no shell reads.
        style: who replaces references.
    """

    def __init__(
        self, text: Mapped, refs: Refs, *, operators: bool = True, style: str = SHELL
    ) -> None:
        self._text = text
        self._raw = text.text
        self._refs = refs
        self._operators = operators
        self._style = style
        self._at = 0

    def commands(self) -> list[Command]:
        """Every command, in order; `(` of an array stays with its assignment."""
        found: list[Command] = []
        words: list[ShellWord] = []
        pending: list[str] = []  # ends of heredocs whose bodies come after this line
        target = after = ""

        def finish(operator: str) -> None:
            nonlocal words, target, after
            if words or target:
                found.append(Command(tuple(words), None, target, after))
            words, target, after = [], "", operator

        raw, length = self._raw, len(self._raw)
        while self._at < length:
            char = raw[self._at]
            if char in " \t\r" or self._is_blank(char):
                self._at += 1
            elif char == "\\" and raw[self._at + 1 : self._at + 2] == "\n":
                self._at += 2
                self._comments()
            elif char == "#" and self._operators:
                end = raw.find("\n", self._at)
                self._at = length if end < 0 else end
            elif self._operators and char == "<" and (doc := _HEREDOC.match(raw, self._at)):
                pending.append(doc[2])
                self._at = doc.end()
            elif self._operators and (to := _REDIRECT.match(raw, self._at)):
                self._at = to.end()
                if not re.match(r"&[\d-]", to[2]) and raw[self._at : self._at + 1] not in (
                    "",
                    "\n",
                    "(",
                    "&",
                    ";",
                    "|",
                ):
                    word = self._word()
                    target = word.text if to[1] in (">", ">>") else target
            elif char in _ENDS and self._operators:
                pair = raw[self._at : self._at + 2]
                operator = pair if pair in ("&&", "||") else ""
                self._at += len(operator) or 1
                finish(operator or (after if char == "\n" and not words else ""))
                if char == "\n" and pending:
                    body = self._bodies(pending)
                    pending = []
                    if found:
                        found[-1] = found[-1]._replace(body=body)
            else:
                begin = self._at
                words.append(self._word())
                if self._at == begin:
                    self._at += 1
        finish("")
        return found

    def _is_blank(self, char: str) -> bool:
        """A line's end outside of a shell, or the `&` of `&>`."""
        if not self._operators:
            return char == "\n"
        return self._raw.startswith("&>", self._at)

    def _comments(self) -> None:
        """A continued line may be followed by comments: people mean the next line that is none."""
        while found := re.compile(r"[ \t]*#[^\n]*\n").match(self._raw, self._at):
            self._at = found.end()

    def _bodies(self, ends: list[str]) -> Mapped:
        body = self._text.part(self._at, self._at)
        for end in ends:
            found = re.compile(rf"^[ \t]*{re.escape(end)}[ \t]*$", re.M).search(self._raw, self._at)
            stop = found.start() if found else len(self._raw)
            body = self._text.part(self._at, stop)
            self._at = found.end() if found else stop
        return body

    def _word(self) -> ShellWord:
        raw, length = self._raw, len(self._raw)
        line, column = self._text.place(self._at)
        pieces: list[tuple[str, int]] = []
        quoted = False
        while self._at < length:
            char, at = raw[self._at], self._at
            if char in " \t\r\n" or (self._operators and char in ";&|()"):
                if char == "(" and pieces and pieces[-1][0].endswith("="):
                    return self._array("".join(p[0] for p in pieces), line, column)
                break
            if self._operators and char in "<>" and raw[at + 1 : at + 2] != "(":
                break
            if char == "\\":
                if raw[at + 1 : at + 2] == "\n":
                    break
                pieces.append((raw[at + 1 : at + 2], at + 1))
                self._at += 2
            elif char == "'":
                end = raw.find("'", at + 1)
                end = length if end < 0 else end
                pieces.append((raw[at + 1 : end], at + 1))
                self._at, quoted = end + 1, True
            elif char == '"':
                self._double(pieces)
                quoted = True
            elif char in "$`" or raw.startswith("{{", at):
                pieces.append((self._reference(), at))
            else:
                pieces.append((char, at))
                self._at += 1
        text = "".join(piece for piece, _ in pieces)
        inside = self._mapped(pieces) if quoted and any(c in text for c in " \n") else None
        return ShellWord(text, line, column, quoted, inside)

    def _mapped(self, pieces: list[tuple[str, int]]) -> Mapped:
        """The text of pieces that stand at offsets."""
        marks: list[tuple[int, int, int]] = []
        length = 0
        for piece, at in pieces:
            stretch = self._text.part(at, at + len(piece))
            marks += [(length + offset, *place) for offset, place in stretch.marks()]
            length += len(piece)
        return Mapped("".join(piece for piece, _ in pieces), marks)

    def _double(self, pieces: list[tuple[str, int]]) -> None:
        raw = self._raw
        self._at += 1
        while self._at < len(raw) and raw[self._at] != '"':
            char, at = raw[self._at], self._at
            if char == "\\":
                following = raw[at + 1 : at + 2]
                if following == "\n":
                    pieces.append((" ", at))
                else:
                    pieces.append((following if following in '"\\$`' else char + following, at + 1))
                self._at += 2
            elif char in "$`" or raw.startswith("{{", at):
                pieces.append((self._reference(), at))
            else:
                pieces.append((char, at))
                self._at += 1
        self._at += 1

    def _reference(self) -> str:
        raw = self._raw
        if self._style == "none":
            self._at += 1
            return raw[self._at - 1]
        if raw.startswith("${", self._at) and (found := _ITEMS.match(raw, self._at)):
            ref = Ref(found[1], None, self._text.place(self._at))
            self._at = found.end()
            return self._refs.add(ref)
        found_ref = reference(raw, self._at, self._style)
        if found_ref is None:
            self._at += 1
            return raw[self._at - 1]
        end, name, default = found_ref
        ref = Ref(name, default, self._text.place(self._at))
        self._at = end
        return self._refs.add(ref)

    def _array(self, head: str, line: int, column: int) -> ShellWord:
        """`NAME=(a b c)` as one word whose items are kept apart by a control character."""
        depth, at = 0, self._at
        end = at
        while end < len(self._raw):
            char = self._raw[end]
            if char == "#" and self._raw[end - 1] in " \t\n":
                stop = self._raw.find("\n", end)
                end = len(self._raw) if stop < 0 else stop
                continue
            if char in "'\"":
                stop = self._raw.find(char, end + 1)
                end = len(self._raw) if stop < 0 else stop
            depth += (char == "(") - (char == ")")
            end += 1
            if not depth:
                break
        self._at = end
        return ShellWord(head, line, column, array=self._text.part(at + 1, max(end - 1, at + 1)))


_ITEMS = re.compile(r"\$\{([A-Za-z_]\w*)\[[@*]\]\}")
