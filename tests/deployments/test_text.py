"""A parsed scalar is laid against its source again, so every word keeps its place."""

from __future__ import annotations

import pytest

from kvplan.deployments.node import documents
from kvplan.deployments.text import plain


@pytest.mark.parametrize(
    "source",
    [
        "key: one two three",
        "key: >\n  one\n  two\n    three\n",
        "key: |-  # words\n  one \\\n   two\n  three\n",
        'key: "one\\ttwo\\n\\\n   three"',
        "key: 'one ''two''\n   three'",
        "key: &anchor one\n  two\n  three",
        'key: "say \\"one\\" two \\\\three"',
        'key: "{\\"one\\": \\"two\\",\\n \\"three\\": 1}"',
    ],
)
def test_words_keep_their_places(source: str) -> None:
    """Whatever the style of the scalar, each word begins where its text says."""
    (node,) = documents(plain(source))
    text = node.get("key").mapped()
    lines = source.split("\n")

    for word in ("one", "two", "three"):
        line, column = text.place(text.text.index(word))
        assert lines[line - 1][column - 1 :].startswith(word), (word, line, column)


def test_documents_inside_strings_keep_the_file_s_places() -> None:
    """YAML in a ConfigMap, JSON in that: three levels, one file."""
    source = "a: |\n  b: 1\n  c: '{\"d\": [1, 22]}'\n"
    (outer,) = documents(plain(source))
    (inner,) = outer.get("a").inner()
    (innermost,) = inner.get("c").inner()

    assert inner.get("b").place() == (2, 6)
    assert innermost.get("d", 1).place() == (3, 17)
