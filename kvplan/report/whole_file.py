"""A file is written whole or not at all, as editors do it."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kvplan.errors import UsageError


def write_file(path: str, text: str) -> None:
    """Write whole or not at all, as editors do: mode and links of what was there are kept.

    The text goes through a temporary file beside the target, which takes its place in one step;
    signals wait for that. A device or a pipe, a file with several names, and a file in a folder
    that takes no other, are written in place.

    Raises:
        UsageError: it cannot be written.
    """
    data = text.encode("utf-8", "replace")
    try:
        target = os.path.realpath(path)
        old = os.stat(target) if os.path.exists(target) else None
        if old is not None and stat.S_ISREG(old.st_mode):
            if not old.st_mode & 0o222:
                raise PermissionError(errno.EACCES, "the file is read-only")
            if old.st_nlink > 1 or not os.access(os.path.dirname(target), os.W_OK):
                _write_in_place(target, data)
                return
        elif old is not None:
            _write_in_place(target, data)
            return
        with _signals_wait():
            _replace(target, data, old)
    except OSError as error:
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from None


def _write_in_place(target: str, data: bytes) -> None:
    with open(target, "wb") as file:
        file.write(data)


def _replace(target: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a new file and put it in the target's place."""
    import tempfile  # loads a dozen modules, which standard output does not need

    number, written = tempfile.mkstemp(prefix=".kvplan-", dir=os.path.dirname(target))
    try:
        with open(number, "wb") as file:
            os.chmod(written, stat.S_IMODE(old.st_mode) if old is not None else _new_mode())
            file.write(data)
        os.replace(written, target)
    except BaseException:
        os.unlink(written)
        raise


def _new_mode() -> int:
    """The mode that a new file of this process gets."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let interrupts and requests to end wait until a file is whole; they come afterwards."""
    if threading.current_thread() is not threading.main_thread():  # only that one is interrupted
        yield
        return
    came: list[int] = []
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, lambda n, _: came.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in came:
            signal.raise_signal(number)
