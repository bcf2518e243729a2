"""Words of a command line, cut as a shell does, with their places."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engines.kit.words import Word, split_words
from kvplan.errors import UsageError


def test_every_word_has_its_place() -> None:
    """Behind blanks, quotes and line ends; a backslash joins two lines."""
    text = "vllm serve \\\n  'a b'  --x=\"1 2\"\n\t-tp 2"
    assert split_words(text, name="run.sh", line=10, column=5) == (
        Word("vllm", 10, 5, "run.sh"),
        Word("serve", 10, 10, "run.sh"),
        Word("a b", 11, 3, "run.sh"),
        Word("--x=1 2", 11, 10, "run.sh"),
        Word("-tp", 12, 2, "run.sh"),
        Word("2", 12, 6, "run.sh"),
    )
    assert split_words("x", name="run.sh", line=3, column=7)[0].where == "run.sh:3:7"
    assert split_words("x")[0].where is None


def test_a_quote_over_two_lines_counts_them() -> None:
    """JSON in a script: the next word stands on the third line."""
    words = split_words("--c '{\n \"a\": 1\n}' -n 1")
    assert [(word.text, word.line, word.column) for word in words[1:]] == [
        ('{\n "a": 1\n}', 1, 5),
        ("-n", 3, 4),
        ("1", 3, 7),
    ]


@pytest.mark.parametrize(("text", "word"), [("'a", "'"), ('x"a', '"'), ("a\\", "backslash")])
def test_what_is_not_closed(text: str, word: str) -> None:
    """The place is the quote's."""
    with pytest.raises(UsageError, match=rf"cannot be split: .*{word}") as error:
        split_words(text, name="f")
    assert error.value.where == ("f:1:2" if text != "'a" else "f:1:1")


@given(st.lists(st.text(alphabet="ab '\"\\\n\t${}[]:=-", max_size=8), max_size=5))
def test_what_was_quoted_for_a_shell_comes_back(words: list[str]) -> None:
    """Against the standard library's quoting."""
    assert [word.text for word in split_words(shlex.join(words))] == words
