"""How flags read their values: numbers with suffixes, switches, JSON objects, lists, shares.

`human_int` is vLLM's reading: `32k` is 32,000 and `32K` is 32,768; only the small letters take
decimals (vllm 0.33.0, utils/argparse_utils.py). Each raises ValueError on a text that it cannot
take; the table makes a message of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

TRUE, FALSE = ("true", "1", "yes", "on", ""), ("false", "0", "no", "off")

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def human_int(text: str) -> int:
    """`8192`, `32k` (32,000), `32K` (32,768), `25.6k` (25,600)."""
    text = text.strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text)
    if match is None:
        return int(text)
    number, suffix = match[1], match[2]
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    return int(number) * _BINARY[suffix]


def boolean(text: str) -> bool:
    """`true`, `1`, `yes`, `on` or nothing; `false`, `0`, `no`, `off`."""
    word = text.strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(text)


def share(text: str) -> float:
    """A share of the device: above 0 and up to 1."""
    value = float(text)
    if not 0 < value <= 1:  # nan is neither
        raise ValueError(text)
    return value


def natural(text: str) -> int:
    """A whole number that is not negative."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def positive(text: str) -> int:
    """A whole number above 0."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def mapping(text: str) -> dict[str, Any]:
    """A JSON object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def items(text: str) -> tuple[str, ...]:
    """A list as JSON (`["0", "31"]`) or as words (`0 31`, `0,31`)."""
    if text.strip().startswith("["):
        return tuple(str(item) for item in json.loads(text))
    return tuple(re.split(r"[,\s]+", text.strip())) if text.strip() else ()
