"""What a script assigns, writes and starts, read from the top and never run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployments.shell import Command, Scanner, ShellWord
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import MARK, SHELL, Scope

_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_EXPORTS = ("export", "readonly", "declare", "local", "typeset")
_OPENS = {"if": "fi", "case": "esac", "for": "done", "while": "done", "until": "done"}
_PASSES = ("then", "do", "else", "elif", "{", "}", "!", "time", "exec", "eval")
_SHELLS = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
# Programs whose answer decides whether what stands behind `&&` happens.
_TESTS = ("[", "[[", "test", "((", "command", "grep")
# Programs that hand a text to a shell, here or elsewhere.
_HANDS = ("tmux", "screen", "ssh", "su", "eval", "pdsh")
_CONTAINERS = ("docker", "podman", "nerdctl")
_MOST_WORDS = 20_000
_DEEPEST = 4


class Line(NamedTuple):
    """A command whose words are spread out: variables that hold flags are their flags.

    Attributes:
        words: its words.
        spread: places of words that came out of a variable.
        settings: the environment in front of it.
        container: the command that runs it in a container.
    """

    words: tuple[ShellWord, ...]
    spread: frozenset[tuple[int, int]] = frozenset()
    settings: tuple[tuple[str, str, tuple[int, int]], ...] = ()
    container: tuple[ShellWord, ...] = ()


class Script:
    """One script.

    Args:
        scope: what is defined before it; the script's own assignments are added to it.

    Attributes:
        lines: every command.
        files: what its heredocs write, by the name of the file.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.lines: list[Line] = []
        self.files: dict[str, Mapped] = {}
        self._arrays: dict[str, list[ShellWord]] = {}
        self._texts: dict[str, Mapped] = {}
        self._tested = False  # whether the last command was a test
        self._decides = False  # whether this one hangs on it
        self._doubtful: list[str] = []  # ends of the blocks that are open

    def read(self, text: Mapped, style: str = SHELL, depth: int = 0) -> Script:
        """Read a script; commands of an inner `sh -c` too."""
        for command in Scanner(text, self.scope.refs, style=style).commands():
            self._command(command, depth)
        return self

    def shell(self, words: Sequence[ShellWord]) -> Script:
        """Read a command whose program is a shell: the script behind `-c`, else the line itself."""
        inner = _inner(list(words))
        if inner is None:
            self.lines.append(Line(tuple(words)))
            return self
        return self.read(inner)

    def _command(self, command: Command, depth: int) -> None:
        if command.body is not None:
            name = self.scope.resolve(command.target).text or command.target
            self.files[name] = command.body
            if depth < _DEEPEST and (name.endswith(_SCRIPTS) or _runs(command.words)):
                self.read(command.body, depth=depth + 1)
        words = self._opened(command.words)
        self._decides = command.after == "||" or (bool(command.after) and self._tested)
        self._tested = bool(words) and words[0].text in _TESTS
        settings: list[tuple[str, str, tuple[int, int]]] = []
        while words:
            found = _ASSIGNS.match(words[0].text)
            if found is None and words[0].text in _EXPORTS:
                words = words[1:]
                continue
            if found is None:
                break
            self._assign(words[0], found, settings)
            words = words[1:]
        if not words:
            return
        spread: set[tuple[int, int]] = set()
        full = self._spread(words, spread)
        inner = _inner(full)
        if inner is not None and depth < _DEEPEST:
            before = len(self.lines)
            self.read(inner, depth=depth + 1)
            if full[0].text in _CONTAINERS:
                self.lines[before:] = [
                    line._replace(container=tuple(full)) for line in self.lines[before:]
                ]
            return
        self.lines.append(Line(tuple(full), frozenset(spread), tuple(settings)))

    def _opened(self, words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
        """The words behind those that open and close blocks."""
        while words:
            first = words[0].text
            if words[0].quoted:
                break
            if first in _OPENS:
                self._doubtful.append(_OPENS[first])
                if first == "for" and len(words) > 1:
                    self.scope.define(words[1].text, None, (words[1].line, words[1].column))
                    return ()
                if first == "case":
                    return ()
            elif self._doubtful and first == self._doubtful[-1]:
                self._doubtful.pop()
            elif first not in _PASSES:
                break
            words = words[1:]
        return words

    def _assign(
        self,
        word: ShellWord,
        found: re.Match[str],
        settings: list[tuple[str, str, tuple[int, int]]],
    ) -> None:
        name, adds = found[1], bool(found[2])
        place = (word.line, word.column)
        if word.array is not None:
            if adds and (self._doubtful or self._decides):
                return
            items = [
                item
                for command in Scanner(word.array, self.scope.refs).commands()
                for item in command.words
            ]
            before_it = self._arrays.get(name, []) if adds else []
            full = before_it + self._spread(tuple(items), set())  # now: it may hold itself
            self._arrays[name] = full[:_MOST_WORDS]
            return
        value: str | None = word.text[found.end() :]
        settings.append((name, value or "", place))
        before = self.scope.find(name)
        if adds:
            value = None if before is None or before.text is None else before.text + (value or "")
        # A default that the variable keeps for itself: ${A:-x} with A not defined before.
        if value and len(value) == 1 and MARK.match(value):
            ref = self.scope.refs.of(value)
            if ref.name == name and before is None:
                value = ref.default
                if value is not None:
                    value = self.scope.refs.encode(Mapped(value, [(0, *ref.place)]), SHELL).text
            elif ref.name == name:
                return
        if self._doubtful or self._decides:
            value = value if before is not None and before.text == value else None
        self.scope.define(name, value, place)
        if word.inside is not None:
            self._texts[name] = word.inside.part(found.end())
        else:
            self._texts.pop(name, None)

    def _spread(
        self, words: tuple[ShellWord, ...], spread: set[tuple[int, int]]
    ) -> list[ShellWord]:
        """Put the items of arrays, and the words of variables that hold several, in their place."""
        full: list[ShellWord] = []
        for word in words:
            name = self._holds(word)
            if name in self._arrays:
                full += self._arrays[name]
            elif name and not word.quoted and (parts := self._parts(name)) is not None:
                spread.update((part.line, part.column) for part in parts)
                full += parts
            else:
                full.append(word)
            if len(full) > _MOST_WORDS:
                break
        return full

    def _holds(self, word: ShellWord) -> str:
        """The variable that is the whole word."""
        if len(word.text) != 1 or MARK.match(word.text) is None:
            return ""
        return self.scope.refs.of(word.text).name

    def _parts(self, name: str) -> list[ShellWord] | None:
        """The words of a variable that holds several, or none at all."""
        given = self.scope.find(name)
        if given is None or given.text is None:
            return None
        if not given.text.strip():
            return []
        if not re.search(r"\s", given.text.strip()) and not given.text.startswith("-"):
            return None
        text = self._texts.get(name)
        if text is None or text.text != given.text:
            text = Mapped(given.text, [(0, *given.place)])
        commands = Scanner(text, self.scope.refs, operators=False).commands()
        return [word for command in commands for word in command.words]


def _runs(words: Sequence[ShellWord]) -> bool:
    """Whether what a command is given on its standard input is a script."""
    first = words[0].text.rpartition("/")[2] if words else ""
    return first in ("sbatch", "ssh") or _SHELLS.fullmatch(first) is not None


def _inner(words: list[ShellWord]) -> Mapped | None:
    """The script that a command gives a shell: the word behind `-c`."""
    for index, word in enumerate(words[:-2]):
        if _SHELLS.fullmatch(word.text) is None:
            continue
        for after, option in enumerate(words[index + 1 : -1], index + 1):
            if not option.text.startswith("-"):
                return None
            if re.fullmatch(r"-[a-z]*c", option.text):
                behind = [word for word in words[after + 1 :] if word.text not in ("--", "")]
                if not behind:
                    return None
                script = behind[0]
                return script.inside or Mapped(script.text, [(0, script.line, script.column)])
    if words and words[0].text.rpartition("/")[2] in _HANDS:
        texts = [word for word in words if word.inside is not None]
        return texts[-1].inside if texts else None
    return None
