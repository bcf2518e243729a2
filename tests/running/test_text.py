"""Reading a log within bounds: colours, carriage returns, encodings, binaries, sizes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kvplan.errors import InputError
from kvplan.running import text
from kvplan.running.text import lines_of, read_lines


def _lines(data: bytes) -> list[str]:
    return list(lines_of(io.BytesIO(data), "log"))


def test_colours_and_line_ends_go() -> None:
    """Escape sequences, carriage returns of progress bars and a byte-order mark are no text."""
    assert _lines(b"\xef\xbb\xbf\x1b[32mINFO\x1b[0m a\r\n") == ["INFO a"]
    assert _lines(b"10%\r100%\nb\n") == ["10%", "100%", "b"]


def test_windows_redirection_is_read() -> None:
    """PowerShell redirects in UTF-16."""
    assert _lines("GPU KV cache\nb".encode("utf-16")) == ["GPU KV cache", "b"]


def test_no_text_is_an_error() -> None:
    """A binary, an empty file, a folder and a missing file each say what they are."""
    with pytest.raises(InputError, match="not text"):
        _lines(b"\x7fELF\x00\x01")
    with pytest.raises(InputError, match="log:2: is not text"):
        _lines(b"fine\nbad\x00\n")
    with pytest.raises(InputError, match="is empty"):
        _lines(b"")
    with pytest.raises(InputError, match="is a folder"):
        list(read_lines("."))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_lines("no/such/file.log"))


def test_a_log_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at the bound, and a line of any length comes in pieces."""
    monkeypatch.setattr(text, "MAX_BYTES", 1 << 20)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        _lines(b"a" * (2 << 20))
    assert max(map(len, _lines(b"a" * 100_000))) <= text.MAX_LINE


def test_broken_utf8_is_replaced(tmp_path: Path) -> None:
    """One bad byte does not hide a log."""
    path = tmp_path / "log"
    path.write_bytes(b"caf\xe9\n# GPU blocks: 7\n")
    assert list(read_lines(str(path))) == ["caf\ufffd", "# GPU blocks: 7"]
