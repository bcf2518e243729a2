"""The text of a file: regular, not too large, UTF-8."""

from __future__ import annotations

import os
import stat

from kvplan.documents.policy import Policy


def read_text(path: str, policy: Policy) -> str:
    """The text of a file.

    Raises:
        InputError: as for `read_bytes` and `decode`.
    """
    return decode(read_bytes(path, policy), path, policy)


def read_bytes(path: str, policy: Policy) -> bytes:
    """The bytes of a regular file within the policy's size.

    Raises:
        InputError: missing, a directory, a device, unreadable, empty or too large.
    """
    limit = policy.max_bytes
    try:
        kind = os.stat(path)
        if stat.S_ISDIR(kind.st_mode):
            raise policy.error("is a directory, not a file", where=path)
        if not stat.S_ISREG(kind.st_mode):
            raise policy.error("is not a regular file", where=path)
        if kind.st_size > limit:
            raise policy.error(
                f"is {kind.st_size:,} bytes; more than {limit:,} cannot be right", where=path
            )
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise policy.error("does not exist", where=path) from None
    except (OSError, ValueError) as error:  # ValueError: an embedded NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise policy.error(f"cannot be read: {reason}", where=path) from None
    if not data or data.isspace():
        raise policy.error("is empty", where=path)
    return data


def decode(data: bytes, name: str, policy: Policy) -> str:
    """UTF-8 text of a file, without a byte order mark.

    Raises:
        InputError: not UTF-8, or with NUL bytes: not a text file.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise policy.error(f"is not text (byte {error.start} is not UTF-8)", where=name) from None
    if "\0" in text:
        raise policy.error("is not text (it holds NUL bytes)", where=name)
    return text
