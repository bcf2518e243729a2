"""Servers that speak HTTP badly, slowly or not at all: one error of one line, exit code 2."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kvplan.cli import main
from kvplan.errors import KvplanError
from kvplan.running import fetch

GOOD = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="27793"} 1.0\n'
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start a server that answers one connection with whatever a function sends."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection)
                except OSError:
                    pass

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(5)


def sends(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


def drips(data: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            time.sleep(0.05)

    return answer


ODD = {
    "nonsense": b"hello\r\n\r\n",
    "nothing": b"",
    "HTTP 0.9": GOOD,
    "a status of words": b"HTTP/1.1 fine OK\r\n\r\n",
    "status 99999": b"HTTP/1.1 99999 OK\r\n\r\n" + GOOD,
    "a negative status": b"HTTP/1.1 -1 OK\r\n\r\n",
    "101 headers": OK + b"".join(b"H%d: x\r\n" % n for n in range(101)) + b"\r\n" + GOOD,
    "a header of 70 kB": OK + b"H: " + b"x" * 70_000 + b"\r\n\r\n" + GOOD,
    "a status of 70 kB": b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n" + GOOD,
    "a chunk of no size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + GOOD,
    "a chunk cut short": OK + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n" + GOOD,
    "chunks without an end": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nvllm:\r\n",
    "a short body": OK + b"Content-Length: 99999\r\n\r\n" + GOOD,
    "a length of words": OK + b"Content-Length: many\r\n\r\nnothing here",
    "a length of 5,000 digits": OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + GOOD,
    "404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "500 with control characters": b"HTTP/1.1 500 \x1b[2J\x07\r\nContent-Length: 0\r\n\r\n",
    "401": b"HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
    "a redirect to a file": b"HTTP/1.1 302 X\r\nLocation: file:///etc/passwd\r\n\r\n",
    "a redirect to nowhere": b"HTTP/1.1 302 X\r\nLocation: http://[::bad/\r\n\r\n",
    "a redirect without a place": b"HTTP/1.1 302 X\r\n\r\n",
    "a page": OK + b"Content-Length: 13\r\n\r\n<html></html>",
    "binary": OK + b"Content-Length: 4\r\n\r\n\x00\xff\xfe\x00",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x28",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_answers(
    name: str,
    serve: Callable[[Callable[[socket.socket], None]], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever a server sends, the command ends with 2 and a line that says what was wrong."""
    code = main(["verify", "llama3-8b", "--metrics", serve(sends(ODD[name]))])
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert 1 <= len(err.splitlines()) <= 3
    assert "mistake in kvplan" not in err
    assert "\x1b" not in err


@pytest.mark.parametrize("what", [OK + b"H: " + b"x" * 1000, OK + b"\r\n" + GOOD * 100, b""])
def test_whoever_drips_is_left(
    what: bytes,
    serve: Callable[[Callable[[socket.socket], None]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Headers, a body or nothing, byte by byte: all of it together has a time."""
    monkeypatch.setattr(fetch, "WHOLE_SECONDS", 0.4)
    answer = drips(what) if what else lambda connection: time.sleep(1)
    started = time.monotonic()

    with pytest.raises(KvplanError, match="took longer than"):
        list(fetch.metrics_lines(serve(answer)))
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "url",
    ["http://host:port/metrics", "http://host:99999999/m", "http://user:secret@host:x/m",
     "http://a b/metrics", "http://host/a\x07b", "http:///metrics", "http://[::1/m", "ftp://h/m",
     "http://host:0/m", "http://user:secret@127.0.0.1:1/m?token=secret", "http://\u2100.com/m"],
)  # fmt: skip
def test_urls_that_are_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused in a line that never repeats a password."""
    code = main(["verify", "llama3-8b", "--metrics", url])
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert 1 <= len(err.splitlines()) <= 3
    assert "mistake in kvplan" not in err
    assert "secret" not in err


def test_a_password_goes_to_its_host(
    serve: Callable[[Callable[[socket.socket], None]], str],
) -> None:
    """As basic authentication: user:pw is dXNlcjpwdw== in base 64."""
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD)

    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))
            answer(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    url = f"http://user:pw@127.0.0.1:{listener.getsockname()[1]}/metrics"

    lines = list(fetch.metrics_lines(url))
    thread.join(5)
    listener.close()

    assert lines == [GOOD.decode().strip()]
    assert b"Authorization: Basic dXNlcjpwdw==" in asked[0]
