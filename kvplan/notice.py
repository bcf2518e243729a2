"""Something a reader of a result should know; neither an error nor a figure."""

from __future__ import annotations

from kvplan.named_tuple import NamedTuple


class Notice(NamedTuple):
    """A stable id that scripts can look for, and one sentence that may change."""

    id: str
    message: str
