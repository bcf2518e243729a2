"""Progress on stderr, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MANY_FILES = 200  # about a second


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A line that says what runs now; yields the function that is told (what, done, in all)."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total
        )


@contextmanager
def byte_progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar over `total` bytes; yields the function that moves it on by some."""
    if sys.stderr is None or not sys.stderr.isatty() or not total:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def count_progress(what: str) -> Iterator[Callable[[int], None] | None]:
    """A count that grows; yields the function that is told it, None where nobody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.update(task, completed=count)


@contextmanager
def file_progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar over files, for trees that take longer than a second."""
    if sys.stderr is None or not sys.stderr.isatty() or total < _MANY_FILES:
        yield lambda done: None
        return
    with step_progress() as moved:
        yield lambda done: moved("files", done, total)
