"""Metrics from a URL: asked once, within a time and a size, never further than the URL says.

Only http and https; a redirect may change host, not to another scheme. Proxies of the environment
apply as everywhere in Python. Nothing is sent but the request itself; a user and a password in the
URL go to that host alone and are never printed.

The whole exchange runs in a thread that is waited for `WHOLE_SECONDS`: a server may drip its
headers, its body or nothing at all.
"""

from __future__ import annotations

import base64
import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from kvplan.errors import InputError, UsageError
from kvplan.printable import visible
from kvplan.running.text import read_lines

TIMEOUT_SECONDS = 10.0
WHOLE_SECONDS = 30.0
MAX_BYTES = 16 << 20
_CHUNK = 1 << 16


def metrics_lines(place: str) -> Iterator[str]:
    """Lines of metrics behind a URL, in a file, or on standard input.

    Raises:
        InputError: they cannot be had, or are larger than 16 MiB from a URL.
        UsageError: a URL of another scheme, or none at all.
    """
    if "://" not in place:
        yield from read_lines(place)
        return
    yield from _fetch(place).decode("utf-8", "replace").splitlines()


def shown(url: str) -> str:
    """A URL as it may be printed: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the URL"
    host = parts.netloc.rpartition("@")[2]
    return visible(urlunsplit((parts.scheme, host, parts.path, "", "")))


class _SameKind(urllib.request.HTTPRedirectHandler):
    """Follows redirects among http and https only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        _parts(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _parts(url: str) -> SplitResult:
    """The parts of a URL that can be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        said = str(error) if "@" not in url else "its port or host cannot be read"
        raise UsageError(f"--metrics {shown(url)} is not a URL: {said}") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(
            f"--metrics {shown(url)} is neither an http(s) URL nor a file",
            hint="such as http://localhost:8000/metrics",
        )
    if not url.isprintable() or " " in url:
        raise UsageError(
            f"--metrics {shown(url)} holds blanks or control characters", hint="write %20 for one"
        )
    return parts


def _request(url: str) -> urllib.request.Request:
    parts = _parts(url)
    user, at, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    request = urllib.request.Request(plain)
    if at:
        secret = base64.b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {secret}")
    return request


def _fetch(url: str) -> bytes:
    request = _request(url)
    done: list[bytes] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(_ask(request, shown(url)))
        except Exception as error:  # told to the caller, who raises it
            error.__context__ = None  # it would keep the connection open
            failed.append(error.with_traceback(None))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WHOLE_SECONDS)
    if done:
        return done[0]
    if not failed:
        raise InputError(f"took longer than {WHOLE_SECONDS:.0f} s", where=shown(url))
    raise failed[0]


def _ask(request: urllib.request.Request, where: str) -> bytes:
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
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return _read(answer, where)
    except urllib.error.HTTPError as error:
        error.close()
        raise InputError(f"answered {error.code} {str(error.reason)[:100]}", where=where) from None
    except http.client.HTTPException as error:
        said = str(error)[:100] or type(error).__name__
        raise InputError(f"does not speak HTTP as it should: {said}", where=where) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error)[:200]
        raise InputError(f"cannot be fetched: {reason}", where=where) from None


def _read(answer: Any, where: str) -> bytes:
    """The body, within the bounds and as long as it was said to be."""
    data = bytearray()
    while chunk := answer.read1(_CHUNK):
        data += chunk
        if len(data) > MAX_BYTES:
            raise InputError("is larger than 16 MiB, no metrics are", where=where)
    said = answer.headers.get("Content-Length")
    if said is not None and said.strip().isdigit() and len(data) < int(said[:18]):
        raise InputError(f"ended after {len(data):,} of {int(said[:18]):,} bytes", where=where)
    return bytes(data)
