"""What a plain YAML scalar means: YAML 1.1 as PyYAML reads it, without its traps.

YAML 1.1 also reads `1:30` (as 90), `0b11`, `0x20`, `017` (as 15) and `1_0` as numbers, and
`2024-01-01` as a date. Nobody means that in these files: dates stay text, and a number that is not
plainly decimal is refused or stays text, as the policy says. So does one that no count can be.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_PREFIX = "tag:yaml.org,2002:"
_INT, _FLOAT = _PREFIX + "int", _PREFIX + "float"
_TEXT = (_PREFIX + "str", _PREFIX + "timestamp", _PREFIX + "merge", _PREFIX + "value")
_STANDARD = {_PREFIX + name: name for name in ("str", "int", "float", "bool", "null")}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*|[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?|\.(?i:inf|nan))")
_TOO_LARGE = 2**64


class OddNumber(Exception):
    """A scalar that YAML 1.1 takes for a number and nobody should; the reason is its text."""


class Scalars:
    """Resolves and constructs scalars with PyYAML's own tables."""

    def __init__(self) -> None:
        self._loader: Any = yaml.SafeLoader("")

    def plain(self, text: str) -> Any:
        """The value of an unquoted scalar.

        Raises:
            OddNumber: a number in another notation than the decimal one, or too large.
        """
        return self._made(self._loader.resolve(yaml.ScalarNode, text, (True, False)), text)

    def tagged(self, tag: str, text: str) -> Any:
        """The value of a scalar with a standard tag; with any other, the text with the tag before.

        Raises:
            OddNumber: as for `plain`.
        """
        if tag == "!":  # "not resolved": a text
            return text
        if tag not in _STANDARD:
            return f"{short(tag)} {text}".rstrip()
        try:
            return self._made(tag, text)
        except OddNumber:
            return f"{short(tag)} {text}"

    def _made(self, tag: str, text: str) -> Any:
        if tag in _TEXT:
            return text
        if tag in (_INT, _FLOAT) and not _DECIMAL.fullmatch(text):
            raise OddNumber(
                f"{text[:40]} is a number in another notation than the decimal one; write "
                "its digits alone, or quotes around a text"
            )
        if tag == _INT and len(text) > len(str(_TOO_LARGE)) + 1:
            raise OddNumber("is too large a number")
        try:
            value = self._loader.construct_object(yaml.ScalarNode(tag, text))
        except (yaml.YAMLError, ValueError, KeyError):  # KeyError: `!!bool maybe`
            return text
        if isinstance(value, int) and abs(value) >= _TOO_LARGE:
            raise OddNumber("is too large a number")
        return value


def short(tag: str) -> str:
    """A tag as people write it: `!!binary`, `!env`."""
    return f"!!{tag[len(_PREFIX) :]}" if tag.startswith(_PREFIX) else tag
