"""Single values of allocator options, each refused with the option's name and what is allowed."""

from __future__ import annotations

import re

from kvplan.allocator.options import AllocatorConfigError

_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+")


def boolean(name: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise refuse(name, value, "True or False")
    return value == "True"


def integer(name: str, value: str) -> int:
    """A whole number; of "64MB" torch reads 64."""
    digits = re.match(r"[0-9]{1,18}(?![0-9])", value)
    if digits is None:
        raise refuse(name, value, "a whole number")
    return int(digits[0])


def number(name: str, value: str) -> float:
    if not _NUMBER.fullmatch(value):
        raise refuse(name, value, "a number")
    return float(value)


def is_power_of_two(value: int) -> bool:
    return value.bit_count() == 1


def refuse(name: str, value: str, allowed: str) -> AllocatorConfigError:
    return AllocatorConfigError(
        f"allocator option `{name}` cannot be {value!r}", hint=f"allowed: {allowed}"
    )
