"""Tokens and bytes: how they are read from people and printed for people.

Conventions, stated here once:

* Inside kvplan every size is an integer number of bytes, every length an integer number of tokens.
* `k`, `m`, `g` behind a token count are binary, in either case: `128k` is 131,072 tokens.
* Reports print binary units (1 GiB = 1024^3 bytes) with two decimals; token counts are printed in
  full with thousands separators.
* Byte options take the unit in full: `GiB` is 1024^3, `GB` is 1000^3. A bare `G` is refused,
  because tools disagree about it.
"""

from __future__ import annotations

from kvplan.errors import UsageError

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

# Far above any context or batch that exists; keeps a typing slip from becoming a page of digits.
MAX_COUNT = 2**40
_MAX_DIGITS = 40  # Python refuses to read thousands of digits, and no limit here has that many

_TOKEN_SUFFIX = {"": 1, "k": KIB, "m": MIB, "g": GIB}
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
    value = _scaled(text, _TOKEN_SUFFIX)
    if value is None:
        raise UsageError(
            f"{what} {text!r} is not a number of tokens",
            hint="write digits, or a binary suffix: 4096, 128k (= 131,072), 1m (= 1,048,576)",
        )
    numerator, denominator = value
    if numerator % denominator:
        raise UsageError(f"{what} {text!r} is not a whole number of tokens")
    return _in_range(
        numerator // denominator, MAX_COUNT, f"{what} {text!r} is outside 1 .. 2^40 tokens"
    )


def parse_count(text: str, what: str) -> int:
    """Read a positive whole number such as a batch size or a number of ranks.

    Raises:
        UsageError: not a whole number between 1 and 2^40.
    """
    digits = _ungrouped(text.strip())
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"{what} {text!r} is not a positive whole number")
    return _in_range(_digits(digits), MAX_COUNT, f"{what} {text!r} is outside 1 .. 2^40")


def parse_bytes(text: str, what: str, *, least: int = 1) -> int:
    """Read a size in bytes such as `42949672960`, `40GiB` or `80 GB`; a part of a byte is dropped.

    Raises:
        UsageError: no number, an unknown unit, or a size outside `least` .. 2^70 bytes.
    """
    negative = least < 0 and text.strip().startswith("-")
    value = _scaled(text.strip().removeprefix("-") if negative else text, _BYTE_SUFFIX)
    if value is None:
        raise UsageError(
            f"{what} {text!r} is not a size in bytes",
            hint="write bytes, or a unit in full: 42949672960, 40GiB (1024^3), 40GB (1000^3)",
        )
    bytes_ = value[0] // value[1] * (-1 if negative else 1)
    outside = f"{what} {text!r} is outside {least} .. 2^70 bytes"
    return _in_range(bytes_, MAX_COUNT * GIB, outside, least=least)


def _scaled(text: str, suffixes: dict[str, int]) -> tuple[int, int] | None:
    """A decimal number with a suffix as an exact fraction (numerator, denominator), else None."""
    text = text.strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = suffixes.get(text[len(number) :].lower())
    whole, point, decimals = number.strip().partition(".")
    whole = _ungrouped(whole)
    digits = whole + decimals
    if factor is None or not whole or bool(point) != bool(decimals):
        return None
    if not digits.isascii() or not digits.isdigit() or len(decimals) > _MAX_DIGITS:
        return None
    scale = 10 ** len(decimals)
    return (_digits(whole) * scale + _digits(decimals or "0")) * factor, scale


def _ungrouped(number: str) -> str:
    """Digits without separators; unchanged where those do not part groups of three (`1,5`)."""
    head, *groups = number.replace("_", ",").split(",")
    if groups and (len(head) not in (1, 2, 3) or any(len(group) != 3 for group in groups)):
        return number
    return "".join((head, *groups))


def _digits(digits: str) -> int:
    """The number that digits write; a longer one than any limit is cut, and stays too large."""
    return int(digits[:_MAX_DIGITS])


def _in_range(value: int, largest: int, otherwise: str, *, least: int = 1) -> int:
    if not least <= value <= largest:
        raise UsageError(otherwise)
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


def format_count(count: int, word: str) -> str:
    """Print a number of things in words: `1 layer`, `1,024 layers`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
