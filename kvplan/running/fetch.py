"""Metrics from a URL: asked once, within a time and a size, never further than the URL says.

Only http and https; a redirect may change host, not to another scheme. Proxies of the environment
apply as everywhere in Python. Nothing is sent but the request itself.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import urlsplit

from kvplan.errors import InputError, UsageError
from kvplan.running.text import read_lines

TIMEOUT_SECONDS = 10.0
WHOLE_SECONDS = 30.0
MAX_BYTES = 16 << 20
_CHUNK = 1 << 16


def metrics_lines(place: str) -> Iterator[str]:
    """Lines of metrics behind a URL, in a file, or on standard input.

    Raises:
        InputError: they cannot be had, or are larger than 16 MiB from a URL.
        UsageError: a URL of another scheme.
    """
    if "://" not in place:
        yield from read_lines(place)
        return
    yield from _fetch(place).decode("utf-8", "replace").splitlines()


class _SameKind(urllib.request.HTTPRedirectHandler):
    """Follows redirects among http and https only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"--metrics {url!r} is not a URL: {error}") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.netloc:
        raise UsageError(
            f"--metrics {url!r} is neither an http(s) URL nor a file",
            hint="such as http://localhost:8000/metrics",
        )


def _fetch(url: str) -> bytes:
    _check_scheme(url)
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SameKind(),
    ):
        opener.add_handler(handler)
    try:
        with opener.open(url, timeout=TIMEOUT_SECONDS) as answer:
            return _read(answer, url)
    except urllib.error.HTTPError as error:
        raise InputError(f"answered {error.code} {error.reason}", where=url) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"cannot be fetched: {reason}", where=url) from None


def _read(answer: Any, url: str) -> bytes:
    """The body, within the bounds; a server that drips must not hold the command."""
    end = time.monotonic() + WHOLE_SECONDS
    data = bytearray()
    while chunk := answer.read1(_CHUNK):
        data += chunk
        if len(data) > MAX_BYTES:
            raise InputError("is larger than 16 MiB, no metrics are", where=url)
        if time.monotonic() > end:
            raise InputError(f"took longer than {WHOLE_SECONDS:.0f} s", where=url)
    return bytes(data)
