"""YAML text into documents: one, or every one of a stream.

The parser's events are used directly, because they carry places and never recurse. In a stream that
the parser gives up on, each document is parsed on its own, so one that is broken hides no other:
`---` at the start of a line begins a document wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.documents.document import Document, located
from kvplan.documents.policy import SPEC, Policy
from kvplan.errors import InputError
from kvplan.named_tuple import NamedTuple

_BOUNDARY = re.compile(r"^(?:---(?=\s|$)|\.\.\.[ \t]*(?:\n|$))", re.MULTILINE)
_CONTENT = re.compile(r"^(?![%#\s]|$)", re.MULTILINE)


class Stream(NamedTuple):
    """The documents of a stream that could be read, and an error for each that could not."""

    documents: tuple[Document, ...]
    errors: tuple[InputError, ...] = ()


def read_yaml(text: str, name: str, policy: Policy = SPEC) -> Document:
    """Read a text of one document.

    Args:
        text: the text.
        name: the file's name.
        policy: one that takes one document.

    Raises:
        InputError: no valid YAML, or something that the policy refuses, with its place.
    """
    documents = list(_parse(text, name, policy))
    return documents[0] if documents else Document(data=None, name=name)


def read_stream(text: str, name: str, policy: Policy) -> Stream:
    """Read every document of a text; those that say nothing are left out.

    Raises:
        InputError: more documents than the policy takes.
    """
    try:
        return Stream(tuple(_saying(_parse(text, name, policy))))
    except policy.error:
        pieces = list(_pieces(text))
    if len(pieces) > policy.max_documents:
        raise policy.error(f"holds more than {policy.max_documents:,} documents", where=name)
    streams = [_alone(piece, name, policy, first_line) for first_line, piece in pieces]
    return Stream(
        tuple(document for stream in streams for document in stream.documents),
        tuple(error for stream in streams for error in stream.errors),
    )


def _alone(text: str, name: str, policy: Policy, first_line: int) -> Stream:
    """The document of a piece, or what is wrong with it."""
    documents: list[Document] = []
    try:
        documents += _saying(_parse(text, name, policy, first_line))
    except policy.error as error:
        return Stream(tuple(documents), (error,))
    return Stream(tuple(documents))


def _saying(documents: Iterator[Document]) -> Iterator[Document]:
    return (document for document in documents if document.data is not None)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Each document's text, and how many lines stand before it."""
    begin = 0
    for mark in _BOUNDARY.finditer(text):
        end = mark.start() if mark.group().startswith("-") else mark.end()
        if _CONTENT.search(text, begin, end):  # directives and comments belong to what follows
            yield text.count("\n", 0, begin), text[begin:end]
            begin = end
    yield text.count("\n", 0, begin), text[begin:]


def _parse(text: str, name: str, policy: Policy, first_line: int = 0) -> Iterator[Document]:
    import yaml

    from kvplan.documents.builder import Builder

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = Builder(name, policy, first_line)
    try:
        for event in yaml.parse(text, Loader=loader):
            document = builder.take(event)
            if document is not None:
                yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = located(name, (first_line + mark.line + 1, mark.column + 1)) if mark else name
        raise policy.error(f"is not valid YAML: {error.problem}", where=where) from None
    except yaml.YAMLError as error:
        message = f"is not valid YAML: {' '.join(str(error).split())}"
        raise policy.error(message, where=name) from None
