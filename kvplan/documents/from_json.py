"""JSON text into a document, through the standard library's parser.

The parser is fast and lenient; what it lets pass and the policy does not is looked for in what it
made: keys that stand twice, depth, number of values and digits. Whatever is found, here or by the
parser, is then named with its place by a scan of the text. `Infinity` and `NaN` are no JSON, but
published files hold them (`time_step_limit` of Nemotron-H); they are read and can never be a fact.
"""

from __future__ import annotations

import gc
import json
import re
from itertools import chain
from typing import Any

from kvplan.documents.document import Document, Problem
from kvplan.documents.json_scan import LONGEST_NUMBER, JsonPlaces, Scan
from kvplan.documents.policy import CONFIG, Policy

_LARGEST = 10**LONGEST_NUMBER
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str, name: str, policy: Policy = CONFIG) -> Document:
    """Read a JSON text.

    Raises:
        InputError: no valid JSON, or something that the policy refuses, with its place.
    """
    if len(text) > policy.max_bytes:
        raise policy.error(
            f"is longer than the {policy.max_bytes:,} characters that can be right", where=name
        )
    twice: list[str] = []

    def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice.append(name)
        return found

    problems: tuple[Problem, ...] = ()
    collects = gc.isenabled()
    gc.disable()  # a large text makes many objects and no garbage: a tenth of the time
    try:
        data: Any = json.loads(text, object_pairs_hook=joined)
    except (ValueError, RecursionError) as error:
        _scan(text, name, policy)
        at = getattr(error, "pos", 0)
        raise Scan(text, name, policy).error("is not valid JSON", at) from None
    finally:
        if collects:
            gc.enable()
    if twice or not _is_within(data, policy) or ("\\" in text and _SURROGATE.search(text)):
        problems = _scan(text, name, policy)
    return Document(data=data, name=name, places=JsonPlaces(text, policy), problems=problems)


def _scan(text: str, name: str, policy: Policy) -> tuple[Problem, ...]:
    """What the policy lets pass; raises what it does not."""
    scan = Scan(text, name, policy)
    scan.run()
    return tuple(scan.problems)


def _is_within(data: Any, policy: Policy) -> bool:
    """Whether data keeps the policy's bounds, level by level."""
    level: list[Any] = [data]
    values = depth = 0
    while level:
        values += len(level)
        kinds = set(map(type, level))  # most levels hold texts alone
        if int in kinds and any(type(v) is int and abs(v) >= _LARGEST for v in level):
            return False
        inner: list[Any] = []
        if dict in kinds:
            inner += chain.from_iterable(v.values() for v in level if type(v) is dict)
        if list in kinds:
            inner += chain.from_iterable(v for v in level if type(v) is list)
        depth += bool(inner)
        if values > policy.max_values or depth > policy.max_depth:
            return False
        level = inner
    return True
