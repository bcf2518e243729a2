"""Every error that kvplan raises on purpose, and where it stands.

    KvplanError                     anything that ends a command with exit code 2
    +-- UsageError                  an option or argument that cannot be used
    +-- InputError                  a file or text that cannot be read as what it should be
    |   +-- SpecError               a model spec (YAML) that breaks the vocabulary
    |   +-- ImportRefused           a foreign file that lacks or contradicts a fact
    +-- UnknownModelError           a model name that nothing answers to
    +-- MissingDependencyError      an optional package that the asked-for command needs

"Does not fit", "does not agree" and "unknown" are results, not errors: they never appear here.
A message is one sentence without a period; `where` is `file:line:column`, `hint` says what would
fix it. What was given is quoted in a message, so each part is cut at a length that still reads, and
what a terminal would obey is written out.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.printable import visible

_LONGEST = 400


class KvplanError(Exception):
    """Base of all expected failures.

    Args:
        message: what is wrong, in one sentence, with the value that was given.
        where: the place it stands, `file:line:column` as far as known.
        hint: what to write or do instead.
    """

    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        message = _cut(self.message)
        where = (self.where or "").replace("\n", "\\n")  # a file may be called anything
        lines = [f"{where}: {message}" if where else message]
        if self.hint:
            lines.append(f"hint: {_cut(self.hint)}")
        return visible("\n".join(lines))


def _cut(text: str) -> str:
    """A text of at most `_LONGEST` characters, its middle left out."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} ... {text[-half:]}"


class UsageError(KvplanError):
    """An option or argument that cannot be used as given."""


class InputError(KvplanError):
    """A file or text that cannot be read as what it should be."""


class SpecError(InputError):
    """A model spec that breaks the vocabulary of specs."""


class ImportRefused(InputError):
    """A foreign file from which a needed fact cannot be derived."""


class UnknownModelError(KvplanError):
    """A model name that nothing answers to, or several things do.

    Attributes:
        candidates: the models that do, or the closest names.
        ambiguous: several do.
    """

    def __init__(
        self,
        message: str,
        *,
        candidates: Sequence[str] = (),
        ambiguous: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)
        self.ambiguous = ambiguous


class MissingDependencyError(KvplanError):
    """An optional package that the asked-for command needs is not installed."""
