"""A number as something printed it: rounded, so that a range of true values prints the same."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.errors import InputError

_LONGEST = 30  # digits of the longest figure that can be meant


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed number.

    Attributes:
        value: as printed, in its unit.
        step: one unit in its last place; 0 for a count that is printed in full.
        line: where it stood, counted from 1.
    """

    value: float
    step: float
    line: int

    @property
    def low(self) -> float:
        """The smallest true value that prints so."""
        return self.value - self.step / 2

    @property
    def high(self) -> float:
        """The largest true value that prints so."""
        return self.value + self.step / 2

    def scaled(self, factor: int) -> Printed:
        """The same number in a smaller unit."""
        return Printed(self.value * factor, self.step * factor, self.line)


def read_printed(text: str, line: int, *, decimals: int | None = None) -> Printed:
    """A number out of a line: `1,234` is a count, `3.81` has two decimals.

    Args:
        text: the digits.
        line: where they stood.
        decimals: decimals the writer rounds to, where it drops trailing zeros (`2.4` for 2.40); a
            number without a point was then rounded to a whole one by whoever passed it on.
    """
    plain = text.replace(",", "")
    if len(plain) > _LONGEST:
        raise InputError(
            f"{plain[:12]}... has {len(plain)} digits: no figure of a cache", where=f"line {line:,}"
        )
    thousands = plain[-1:] in ("k", "K")
    plain = plain[:-1] if thousands else plain
    shown = len(plain.partition(".")[2])
    if thousands:
        # Nobody's log says 55k, but people who pass figures on do: rounded to its last digit.
        return Printed(float(plain) * 1000, 1000 * 10.0**-shown, line)
    if decimals is None:
        return Printed(float(plain), 10.0**-shown if shown else 0.0, line)
    return Printed(float(plain), 10.0 ** -max(shown, decimals) if shown else 1.0, line)
