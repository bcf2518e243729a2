"""Tokens and bytes: how they are read from people and printed for people.

Conventions, stated here once:

* Inside kvplan every size is an integer number of bytes, every length an integer number of tokens.
* `k`, `m`, `g` behind a token count are binary, in either case: `128k` is 131,072 tokens.
* Reports print binary units (1 GiB = 1024^3 bytes) with two decimals; token counts are printed in
  full with thousands separators.
* Byte options take the unit in full: `GiB` is 1024^3, `GB` is 1000^3. A bare `G` is refused, because
  tools disagree about it.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kvplan.errors import UsageError

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

# Far above any context or batch that exists; keeps a typing slip from becoming a page of digits.
MAX_COUNT = 2**40

_TOKEN_SUFFIX = {"": 1, "k": KIB, "m": MIB, "g": GIB}
_COUNT = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([A-Za-z]*)")
_BYTE_SUFFIX = {
    "": 1, "b": 1,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip


def parse_tokens(text: str, what: str = "--ctx") -> int:
    """Read a token count such as `4096`, `131,072`, `128k` or `1m`.

    Raises:
        UsageError: not a whole number of tokens between 1 and 2^40.
    """
    match = _COUNT.fullmatch(text.strip())
    factor = _TOKEN_SUFFIX.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"{what} {text!r} is not a number of tokens",
            hint="write digits, or a binary suffix: 4096, 128k (= 131,072), 1m (= 1,048,576)",
        )
    value = Decimal(match[1].replace("_", "").replace(",", "")) * factor
    if value != int(value):
        raise UsageError(f"{what} {text!r} is {value} tokens, not a whole number")
    if not 1 <= value <= MAX_COUNT:
        raise UsageError(f"{what} {text!r} is outside 1 .. 2^40 tokens")
    return int(value)


def parse_count(text: str, what: str) -> int:
    """Read a positive whole number such as a batch size or a number of ranks.

    Raises:
        UsageError: not a whole number between 1 and 2^40.
    """
    digits = text.strip().replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"{what} {text!r} is not a positive whole number")
    if len(digits) > 13 or not 1 <= int(digits) <= MAX_COUNT:
        raise UsageError(f"{what} {text!r} is outside 1 .. 2^40")
    return int(digits)


def parse_bytes(text: str, what: str) -> int:
    """Read a size in bytes such as `42949672960`, `40GiB` or `80 GB`.

    Raises:
        UsageError: no number, an unknown unit, or a size that is not positive.
    """
    match = _COUNT.fullmatch(text.strip())
    factor = _BYTE_SUFFIX.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"{what} {text!r} is not a size in bytes",
            hint="write bytes, or a unit in full: 42949672960, 40GiB (1024^3), 40GB (1000^3)",
        )
    value = int(Decimal(match[1].replace("_", "").replace(",", "")) * factor)
    if not 1 <= value <= MAX_COUNT * GIB:
        raise UsageError(f"{what} {text!r} is outside 1 byte .. 2^70 bytes")
    return value


def format_bytes(count: int) -> str:
    """Print bytes in the largest binary unit that keeps at least one whole unit: `10.41 GiB`."""
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,} B"


def format_tokens(count: int) -> str:
    """Print a token count in full: `131,072`."""
    return f"{count:,}"
