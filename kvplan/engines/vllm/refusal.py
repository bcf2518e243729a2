"""vLLM would not start: its own message, and in plain words why."""

from __future__ import annotations


class Refused(Exception):
    """Raised while planning, caught by the engine; never leaves it.

    Args:
        kind: the type of vLLM's exception.
        message: its text; empty for a bare assertion.
        why: what is behind it, for messages that do not say.
    """

    def __init__(self, kind: str, message: str, why: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.why = why

    @property
    def shown(self) -> str:
        """What a user sees last: the message, or the exception's name when it has none."""
        return self.message or f"{self.kind}:"
