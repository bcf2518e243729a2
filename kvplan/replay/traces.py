"""Traces of requests, read line by line: Azure's, Mooncake's, and any with named columns.

    CSV, TSV    a header names the columns
    JSONL       an object in every line

Columns are recognised by the names that published traces have, or named with `--columns`. Times
come out as milliseconds after the first request, in order; nothing is kept but the current line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any

from kvplan.errors import InputError, UsageError
from kvplan.named_tuple import NamedTuple
from kvplan.replay.request import Row

_LONGEST_LINE = 8 * 2**20  # characters; a million tokens in units of 512 are 12,000
_MOST_TOKENS = 2**40
MOONCAKE_UNIT = 512

# role -> column names of published traces, with milliseconds of one unit of time; 0 is a date.
_TIMES = {
    "t_ms": 1.0, "timestamp_ms": 1.0, "timestamp": 1.0, "TIMESTAMP": 0.0, "arrival_ns": 1e-6,
    "t_s": 1000.0, "arrived_at": 1000.0,
}  # fmt: skip
_PROMPTS = (
    "prompt_tokens", "input_length", "ContextTokens", "input_tokens", "prefill_tokens",
    "num_prefill_tokens",
)  # fmt: skip
_OUTPUTS = (
    "output_tokens", "output_length", "GeneratedTokens", "decode_tokens", "num_decode_tokens",
)  # fmt: skip
_TEXTS = ("hash_ids",)
TIME_COLUMNS = tuple(_TIMES)
ROLES = ("t_ms", "prompt_tokens", "output_tokens", "hash_ids")


class Columns(NamedTuple):
    """Which column has what; None where the trace has none."""

    time: str | None
    time_ms: float
    prompt: str
    output: str
    text: str | None


class Trace:
    """A trace in a file, or on standard input.

    Args:
        path: of the file; `-` is standard input.
        columns: role -> column, where they are named.
        rows: first and end row of the part that is read.
        longest: requests of more tokens than this are left out, as the engine refuses them.
        most: requests after which reading ends.
        unit: tokens of one id of a text.
        timed: times matter, so there must be some, in order.

    Attributes:
        left_out: requests that were too long.
        unit: tokens of one id of a text.
    """

    def __init__(
        self,
        path: str,
        *,
        columns: Mapping[str, str] | None = None,
        rows: tuple[int, int | None] = (0, None),
        longest: int | None = None,
        most: int | None = None,
        unit: int | None = None,
        timed: bool = True,
    ) -> None:
        self._timed = timed
        self.path = path
        self.shown = "standard input" if path == "-" else path
        self.left_out = 0
        self.unit = unit or MOONCAKE_UNIT
        self._named = dict(columns or {})
        self._first, self._end = rows
        self._longest = longest
        self._most = most

    @property
    def rereadable(self) -> bool:
        """Whether it can be read a second time."""
        return self.path != "-"

    def shares_text(self) -> bool:
        """Whether its lines say what text they have."""
        with self._opened() as file:
            header = self._header(file)
        return header[0].text is not None

    def rows(self) -> Iterator[Row]:
        """The requests, in order of arrival.

        Raises:
            InputError: a line that cannot be read, or that is earlier than the one before.
        """
        with self._opened() as file:
            columns, records = self._header(file)
            self.left_out = 0
            yield from self._rows(columns, records)

    def _rows(
        self, columns: Columns, records: Iterator[tuple[int, Mapping[str, Any]]]
    ) -> Iterator[Row]:
        read_time = _time_reader(columns.time_ms)
        began: float | None = None
        latest = 0.0
        given = 0
        for index, (number, record) in enumerate(records):
            if index < self._first:
                continue
            if self._end is not None and index >= self._end:
                return
            try:
                now = read_time(record[columns.time]) if columns.time is not None else 0.0
                prompt = _tokens(record[columns.prompt])
                output = _tokens(record[columns.output])
                ids = None if columns.text is None else _ids(record[columns.text])
            except KeyError as missing:
                raise self._wrong(number, f"column {missing.args[0]!r} is missing") from None
            except (ValueError, TypeError) as error:
                raise self._wrong(number, str(error)) from None
            began = now if began is None else began
            now -= began
            if not now >= latest:
                raise self._wrong(
                    number, f"the request is {latest - now:,.0f} ms earlier than the one before",
                    hint="sort the trace by its time",
                )  # fmt: skip
            latest = now
            if self._longest is not None and prompt + output > self._longest:
                self.left_out += 1
                continue
            yield Row(now, prompt, output, ids)
            given += 1
            if given == self._most:
                return

    def _wrong(self, number: int, message: str, hint: str | None = None) -> InputError:
        return InputError(message, where=f"{self.shown}:{number}", hint=hint)

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        if self.path == "-":
            yield sys.stdin
            return
        try:
            file = open(self.path, encoding="utf-8-sig", newline="")  # noqa: SIM115
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"cannot be read: {reason}", where=self.shown) from None
        with file:
            yield file

    def _lines(self, file: IO[str]) -> Iterator[tuple[int, str]]:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(_LONGEST_LINE)
            except (OSError, UnicodeDecodeError) as error:
                raise self._wrong(number, f"cannot be read as text: {error}") from None
            if not line:
                return
            if len(line) == _LONGEST_LINE:
                raise self._wrong(number, f"the line has more than {_LONGEST_LINE:,} characters")
            if not line.isspace():
                yield number, line.rstrip("\r\n")

    def _header(self, file: IO[str]) -> tuple[Columns, Iterator[tuple[int, Mapping[str, Any]]]]:
        lines = self._lines(file)
        number, first = next(lines, (0, ""))
        if not first:
            raise InputError("the trace is empty", where=self.shown)
        if first.lstrip().startswith("{"):
            record = self._object(number, first)
            columns = self._columns(list(record), number)
            return columns, self._objects(number, record, lines)
        separator = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
        names = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
        return self._columns(names, number), self._split(names, separator, lines)

    def _objects(
        self, number: int, first: Mapping[str, Any], lines: Iterator[tuple[int, str]]
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        yield number, first
        for number, line in lines:
            yield number, self._object(number, line)

    def _object(self, number: int, line: str) -> Mapping[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._wrong(number, f"is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._wrong(number, "is not a JSON object")
        return found

    def _split(
        self, names: Sequence[str], separator: str, lines: Iterator[tuple[int, str]]
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, line in lines:
            if '"' in line:
                cells = next(csv.reader([line], delimiter=separator))
            else:
                cells = line.split(separator)
            if len(cells) != len(names):
                raise self._wrong(number, f"has {len(cells)} columns, the header {len(names)}")
            yield number, dict(zip(names, cells, strict=True))

    def _columns(self, names: Sequence[str], number: int) -> Columns:
        unknown = [role for role in self._named if role not in ROLES]
        if unknown:
            raise UsageError(f"--columns has no {unknown[0]!r}", hint=f"one of {', '.join(ROLES)}")
        for column in self._named.values():
            if column not in names:
                raise self._wrong(
                    number, f"column {column!r} is missing", hint=f"there are {', '.join(names)}"
                )

        def found(role: str, known: Sequence[str]) -> str | None:
            named = self._named.get(role)
            return named or next((name for name in known if name in names), None)

        time = found("t_ms", list(_TIMES)) if self._timed else None
        if time is None and self._timed:
            raise self._wrong(
                number,
                "no column says t_ms",
                hint="name it: --columns t_ms=NAME; or give --all-at-once, or --clients N",
            )
        prompt, output = found("prompt_tokens", _PROMPTS), found("output_tokens", _OUTPUTS)
        if prompt is None or output is None:
            role = "prompt_tokens" if prompt is None else "output_tokens"
            raise self._wrong(
                number,
                f"no column says {role}",
                hint=f"name it: --columns {role}=NAME; there are {', '.join(names)}",
            )
        unit = 1.0 if "t_ms" in self._named else _TIMES.get(time or "", 1.0)
        return Columns(time, unit, prompt, output, found("hash_ids", _TEXTS))


def _tokens(value: object) -> int:
    """A count of tokens; none at all counts as one, since a request has at least that."""
    if isinstance(value, str):
        count = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        raise ValueError(f"{value!r} is not a number of tokens")
    if not 0 <= count <= _MOST_TOKENS:
        raise ValueError(f"{count:,} is not a number of tokens")
    return count or 1


def _ids(value: object) -> list[int] | None:
    """Ids of a text: a list, or `0-13,20`."""
    if isinstance(value, list):
        if not all(type(item) is int for item in value):
            raise ValueError("hash_ids are not whole numbers")
        return value or None
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a list of hash_ids")
    found: list[int] = []
    for part in value.replace(" ", ",").strip("[]").split(","):
        first, dash, last = part.partition("-")
        if not part:
            continue
        if not dash:
            found.append(int(first))
            continue
        low, high = int(first), int(last)
        if high - low > _LONGEST_LINE or high < low:
            raise ValueError(f"{part!r} is not a range of hash_ids")
        found.extend(range(low, high + 1))
    return found or None


def _time_reader(unit: float) -> Callable[[object], float]:
    """How a time is read, in milliseconds."""
    if not unit:
        return _Dates().read

    def read(value: object) -> float:
        if not isinstance(value, (str, int, float)):
            raise ValueError(f"{value!r} is not a time")
        number = int(value) if isinstance(value, str) and value.isdigit() else float(value)
        if not -1e18 < number < 1e18:
            raise ValueError(f"{value!r} is not a time")
        return number / 1e6 if unit == 1e-6 else number * unit

    return read


class _Dates:
    """Dates as Azure writes them, `2023-11-16 18:17:03.9799600`, parsed once for each minute."""

    def __init__(self) -> None:
        self._minute = ""
        self._seconds = 0
        self._day: datetime | None = None

    def read(self, value: object) -> float:
        """Milliseconds since the midnight before the first one."""
        text = str(value)
        if text[:16] != self._minute:
            minute = datetime.fromisoformat(text[:16])
            if self._day is None:
                self._day = minute.replace(hour=0, minute=0)
            self._minute = text[:16]
            self._seconds = round((minute - self._day).total_seconds())
        seconds, _, fraction = text[17:26].partition(".")  # to the microsecond
        micros = int((fraction + "000000")[:6]) if fraction else 0
        return (self._seconds + int(seconds) + micros / 10**6) * 1000
