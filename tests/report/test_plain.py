"""Plain text is what rich would print in a pipe, to the byte; the rest is left to rich."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pytest

from kvplan.cli import main
from kvplan.report import page as pages
from kvplan.report.colour import RichConsole
from kvplan.report.console import Column, Console, NotPlain, PlainConsole
from kvplan.report.prose import hanging
from kvplan.report.tables import print_table

WORDS = ("a", "of", "tokens", "1,024", "per-sequence", "=", "(8 x 16)", "kv_heads,", "x" * 24)


def both(draw: Callable[[Console], None], width: int) -> tuple[str, str]:
    plain, rich = PlainConsole(width), RichConsole(width, terminal=False)
    draw(rich)
    try:
        draw(plain)
    except NotPlain:  # an empty column and no cell left for it
        return rich.text(), rich.text()
    return plain.text(), rich.text()


@pytest.mark.parametrize("width", [40, 57, 80, 120])
def test_paragraphs_wrap_where_rich_wraps(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of any length, several blanks, blanks in front and behind, empty lines."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    drawn = random.Random(width)
    for _ in range(150):
        words = drawn.choices(WORDS, k=drawn.randint(0, 40))
        text = "".join(word + " " * drawn.choice((1, 1, 1, 2, 3)) for word in words)
        text = drawn.choice(("", "   ", "\n")) + text + drawn.choice(("", "\n", "  "))

        def draw(console: Console, text: str = text) -> None:
            console.print(text, style="bold")
            hanging(console, "  label: ", text.strip("\n"))

        plain, rich = both(draw, width)
        assert plain == rich


@pytest.mark.parametrize("width", [40, 57, 120])
def test_tables_are_laid_out_as_rich_does(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings stand at the bottom, cells at the top, numbers at the right."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    drawn = random.Random(width)
    columns = [Column("what"), Column("one more token", "right"), Column(""), Column("why it is")]
    for count in range(40):
        rows = [
            [
                drawn.choice(WORDS),
                f"{drawn.randint(0, 10**9):,}",
                drawn.choice(("ok", "")),
                " ".join(drawn.choices(WORDS, k=drawn.randint(0, 20))),
            ]
            for _ in range(count % 5)
        ]

        def draw(console: Console, rows: list[list[str]] = rows) -> None:
            print_table(console, columns, rows)

        plain, rich = both(draw, width)
        assert plain == rich


@pytest.mark.parametrize("text", ["café", "x" * 41, "a\tb", "\x1b[1m"])
def test_other_texts_are_left_to_rich(text: str) -> None:
    """Wide characters, a word to be cut, what a terminal would obey."""
    with pytest.raises(NotPlain):
        PlainConsole(40).print(text)


@pytest.mark.parametrize(
    "command",
    [
        "size llama3-8b --ctx 128k --batch 32",
        "size gemma-3-27b --engine vllm --explain-layout --per-layer",
        "size deepseek-v3 llama3-8b --dtype bf16,fp8 --engine transformers --tp 2",
        "size mamba-2.8b --ctx 4096 --weights --allocator",
        "fit llama3-70b --engine vllm --available-memory 24GiB",
        "fit gemma-3-27b --engine transformers --available-memory 80GiB --ctx 8192",
        "explain deepseek-v4-flash",
        "models --family gemma",
    ],
)
def test_every_page_is_the_same(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through rich and without it."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    code = main(command.split())
    plain = capsys.readouterr().out
    monkeypatch.setattr(pages, "PlainConsole", _Refusing)

    assert main(command.split()) == code
    assert capsys.readouterr().out == plain


class _Refusing:
    def __init__(self, width: int) -> None:
        self.width = width

    def __getattr__(self, name: str) -> object:
        raise NotPlain


def test_a_pipe_needs_no_rich() -> None:
    """Its import would take longer than the answer."""
    code = (
        "import sys; from kvplan.cli import main; main(['size', 'llama3-8b', '--engine', 'vllm']);"
        " sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
