"""A report arrives whole or not at all: on standard output, in a file, in any format."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvplan.errors import UsageError
from kvplan.report import as_csv, as_markdown, whole_file, write
from kvplan.report.write import deliver

posix = pytest.mark.skipif(os.name != "posix", reason="modes, signals and links of POSIX")
ROOT = Path(__file__).parents[2]


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    line = line.replace("kvplan ", f"{sys.executable} -m kvplan ")
    return subprocess.run(["bash", "-c", line], capture_output=True, check=False, cwd=ROOT)


@posix
@pytest.mark.parametrize("buffered", ["", "PYTHONUNBUFFERED=1 "])
def test_a_size_limit_is_noticed(buffered: str, tmp_path: Path) -> None:
    """8 KiB of the catalogue's 90 and exit code 0 would be a lie."""
    target = tmp_path / "out.json"
    done = shell(f"ulimit -f 8; {buffered}kvplan models --json > {target}")

    assert done.returncode == 2
    assert b"standard output cannot be written: File too large" in done.stderr


@posix
@pytest.mark.parametrize("buffered", ["", "PYTHONUNBUFFERED=1 "])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_noticed(buffered: str) -> None:
    """Whatever the buffering, and for a file that is named too."""
    for line in (f"{buffered}kvplan models > /dev/full", f"{buffered}kvplan models -o /dev/full"):
        done = shell(line)
        assert done.returncode == 2
        assert b"No space left" in done.stderr


@posix
def test_a_pipe_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader slower than the report gets all of it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    got = bytearray()

    def read() -> None:
        while piece := os.read(reading, 65536):
            got.extend(piece)

    thread = threading.Thread(target=read)
    thread.start()
    write._write_all(writing, b"x" * 1_000_000)
    os.close(writing)
    thread.join()
    os.close(reading)

    assert len(got) == 1_000_000


@posix
def test_a_reader_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up after a while."""
    monkeypatch.setattr(write, "_READER_SECONDS", 0.05)
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="takes nothing"):
        write._write_all(writing, b"x" * 1_000_000)
    os.close(writing)
    os.close(reading)


@posix
def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    """600 stays 600; a new one gets what the mask leaves."""
    target = tmp_path / "out.txt"
    target.write_text("old")
    target.chmod(0o600)
    deliver("new", str(target))
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o600)

    mask = os.umask(0o027)
    try:
        deliver("new", str(tmp_path / "fresh.txt"))
    finally:
        os.umask(mask)
    assert (tmp_path / "fresh.txt").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh.txt", "out.txt"]


@posix
def test_a_read_only_file_stays(tmp_path: Path) -> None:
    """Whoever made it so did not want it replaced."""
    target = tmp_path / "out.txt"
    target.write_text("old")
    target.chmod(0o444)

    with pytest.raises(UsageError, match="read-only"):
        deliver("new", str(target))
    assert target.read_text() == "old"


@posix
def test_names_and_links(tmp_path: Path) -> None:
    """The longest name a folder takes, a link, and a file with two names."""
    deliver("new", str(tmp_path / ("x" * 251 + ".txt")))
    target, second = tmp_path / "one", tmp_path / "two"
    target.write_text("old")
    second.hardlink_to(target)
    (tmp_path / "link").symlink_to(target)

    deliver("new", str(tmp_path / "link"))

    assert (target.read_text(), second.read_text()) == ("new", "new")
    assert (tmp_path / "link").is_symlink()


@posix
def test_an_interrupt_leaves_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes while a file is written comes once it is whole."""
    right = whole_file._replace

    def interrupted(target: str, data: bytes, old: os.stat_result | None) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        right(target, data, old)

    monkeypatch.setattr(whole_file, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        deliver("new", str(tmp_path / "out.txt"))

    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1", "'=1+1"), (" =1+1", "' =1+1"), ("\uff1d1", "'\uff1d1"), ("\u3000@x", "'\u3000@x"),
     ("\t=1", "'\t=1"), ("-x", "'-x"), ("plain - text", "plain - text"), ("", "")],
)  # fmt: skip
def test_no_cell_is_a_formula(text: str, cell: str) -> None:
    """Blanks before it, or the wide signs of East Asian keyboards, change nothing."""
    assert as_csv._cell(text) == cell


@pytest.mark.parametrize(
    ("text", "cell"),
    [("a|b", "a\\|b"), ("a\\|b", "a\\\\\\|b"), ("<img src=x>", "&lt;img src=x&gt;"),
     ("[x](http://y)", "\\[x\\](http://y)"), ("![x](y)", "!\\[x\\](y)"), ("`x`", "\\`x\\`"),
     ("a\nb", "a b"), ("bytes_per_token", "bytes_per_token")],
)  # fmt: skip
def test_no_cell_is_markup(text: str, cell: str) -> None:
    """Cells stay cells, and nothing becomes HTML, a link or an image."""
    assert as_markdown._cell(text) == cell
