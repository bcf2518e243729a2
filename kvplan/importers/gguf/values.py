"""A cursor over the mapped bytes of a GGUF header that reads typed values under fixed limits.

A GGUF header is a chain: every length is read from the file, and the next value starts where the
last one ends. So each step first asks whether the bytes are there, and everything that is kept in
memory is drawn from one `Budget` for the whole model, all parts of a split file together. What is
too large to be kept is walked over and leaves a `Skipped` with its type and length.

Offsets and lengths are bytes. Source of the format: ggml `docs/gguf.md` (versions 2 and 3); the
value type numbers are those of the gguf package 0.19.0 (`constants.py`, GGUFValueType).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from kvplan.errors import InputError

ByteOrder: TypeAlias = Literal["little", "big"]

# value type number: (name, struct character, bytes)
SCALARS: dict[int, tuple[str, str, int]] = {
    0: ("uint8", "B", 1),
    1: ("int8", "b", 1),
    2: ("uint16", "H", 2),
    3: ("int16", "h", 2),
    4: ("uint32", "I", 4),
    5: ("int32", "i", 4),
    6: ("float32", "f", 4),
    7: ("bool", "B", 1),
    10: ("uint64", "Q", 8),
    11: ("int64", "q", 8),
    12: ("float64", "d", 8),
}
BOOL, STRING, ARRAY = 7, 8, 9

# An array with more elements than this is skipped: per-layer facts have one element per layer.
MAX_KEPT_ELEMENTS = 4096
# The format allows arrays of arrays, no known model has one: they are walked over, never kept.
MAX_ARRAY_DEPTH = 4


class GgufError(InputError):
    """A file that is not a readable GGUF header.

    Attributes:
        path: the file.
        offset: byte at which the value that cannot be read begins, None if the file as a whole.
    """

    def __init__(
        self, message: str, *, path: Path, offset: int | None = None, hint: str | None = None
    ) -> None:
        where = f"{path}" if offset is None else f"{path}: byte {offset}"
        super().__init__(message, where=where, hint=hint)
        self.path = path
        self.offset = offset


@dataclass(slots=True)
class Budget:
    """What one model may still take, counted down as its header (all parts) is read.

    The header of a model with a vocabulary of 256k tokens has about 20 MB, some 50 keys and at
    most a few thousand tensors; these limits are far above that and keep a hostile file below
    50 MB of memory.
    """

    header_bytes: int = 64 * 1024**2
    keys: int = 16_384
    tensors: int = 32_768
    name_bytes: int = 2 * 1024**2  # of keys and tensor names: beyond is an error
    value_bytes: int = 2 * 1024**2  # of strings kept as values: beyond is skipped
    elements: int = 131_072  # of arrays kept as values: beyond is skipped


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that was walked over.

    Attributes:
        value_type: "string", or "array[T]" with T the element type.
        length: bytes of the string, or elements of the array.
    """

    value_type: str
    length: int


Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | tuple[Scalar, ...] | Skipped


def type_name(number: int) -> str:
    """The format's name of a value type, "type N" if it has none."""
    if number in SCALARS:
        return SCALARS[number][0]
    return {STRING: "string", ARRAY: "array"}.get(number, f"type {number}")


def shown(name: str) -> str:
    """A key or tensor name for a message: quoted, and short whatever the file holds."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


class Cursor:
    """Reads forward through `data`, the first `len(data)` bytes of a file of `file_size` bytes."""

    def __init__(self, path: Path, data: mmap.mmap, *, file_size: int, budget: Budget) -> None:
        self.path = path
        self.pos = 0
        self._data = data
        self._end = len(data)
        self._file_size = file_size
        self._budget = budget
        self.set_byte_order("little")

    def set_byte_order(self, byte_order: ByteOrder) -> None:
        """Read every number from here on in this byte order."""
        self._order = "<" if byte_order == "little" else ">"
        self._u32 = struct.Struct(self._order + "I")
        self._u64 = struct.Struct(self._order + "Q")

    def fail(self, message: str, *, at: int | None = None, hint: str | None = None) -> NoReturn:
        """Raise GgufError for the value at byte `at` (default: the next one)."""
        raise GgufError(message, path=self.path, offset=self.pos if at is None else at, hint=hint)

    def take(self, size: int, what: str) -> int:
        """Step over `size` bytes and return where they start.

        Raises:
            GgufError: the file, or the part of it that a header may fill, ends before.
        """
        start = self.pos
        if size > self._end - start:
            self._fail_at_end(start, size, what)
        self.pos = start + size
        return start

    def _fail_at_end(self, start: int, size: int, what: str) -> NoReturn:
        if self._end < self._file_size and size <= self._file_size - start:
            self.fail(f"{what} lies beyond the {self._end} bytes that a header may fill", at=start)
        left = max(0, self._file_size - start)
        self.fail(f"{what} needs {size} bytes, the file has {left} left", at=start)

    def raw(self, size: int, what: str) -> bytes:
        """The next `size` bytes as they are."""
        start = self.take(size, what)
        return self._data[start : self.pos]

    def u32(self, what: str) -> int:
        """An unsigned number of 4 bytes."""
        return int(self._u32.unpack_from(self._data, self.take(4, what))[0])

    def u64(self, what: str) -> int:
        """An unsigned number of 8 bytes."""
        return int(self._u64.unpack_from(self._data, self.take(8, what))[0])

    def name(self, what: str) -> str:
        """A metadata key or tensor name, drawn from the budget for names."""
        start = self.pos
        size = self.u64(f"the length of {what}")
        self.take(size, what)
        self._budget.name_bytes -= size
        if self._budget.name_bytes < 0:
            self.fail("the names of keys and tensors take more bytes than any header", at=start)
        return self._text(start + 8, size, what)

    def value(self, value_type: int, key: str) -> Value:
        """The value of `key`: a scalar, a tuple for a small array, else `Skipped`.

        Raises:
            GgufError: unknown type, bytes beyond the file, a bool that is neither 0 nor 1, text
                that is not UTF-8, or arrays nested deeper than MAX_ARRAY_DEPTH.
        """
        what = f"the value of {shown(key)}"
        if value_type in SCALARS:
            return self._scalars(value_type, 1, what)[0]
        if value_type == STRING:
            return self._string(what)
        if value_type == ARRAY:
            return self._array(what, may_keep=not key.startswith("tokenizer."))
        self.fail(f"{what} has the unknown {type_name(value_type)}", at=self.pos - 4)

    def _scalars(self, value_type: int, count: int, what: str) -> Sequence[Scalar]:
        _, character, size = SCALARS[value_type]
        start = self.take(count * size, what)
        numbers = struct.unpack_from(f"{self._order}{count}{character}", self._data, start)
        if value_type != BOOL:
            return numbers
        for index, number in enumerate(numbers):
            if number > 1:
                self.fail(f"{what} holds the bool {number}, not 0 or 1", at=start + index)
        return tuple(number == 1 for number in numbers)

    def _string(self, what: str) -> str | Skipped:
        size = self.u64(f"the length of {what}")
        start = self.take(size, what)
        if size > self._budget.value_bytes:
            return Skipped("string", size)
        self._budget.value_bytes -= size
        return self._text(start, size, what)

    def _text(self, start: int, size: int, what: str) -> str:
        try:
            return str(self._data[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"{what} is not valid UTF-8", at=start + error.start)

    def _array(self, what: str, *, may_keep: bool) -> tuple[Scalar, ...] | Skipped:
        item_type = self.u32(f"the element type of {what}")
        count = self.u64(f"the element count of {what}")
        start = self.pos
        self._skip_items(item_type, count, what, depth=1)
        end, budget = self.pos, self._budget
        text_bytes = end - start if item_type == STRING else 0
        if (
            not may_keep
            or item_type == ARRAY
            or count > min(MAX_KEPT_ELEMENTS, budget.elements)
            or text_bytes > budget.value_bytes
        ):
            return Skipped(f"array[{type_name(item_type)}]", count)
        budget.elements -= count
        budget.value_bytes -= text_bytes
        self.pos = start
        if item_type != STRING:
            return tuple(self._scalars(item_type, count, what))
        texts = []
        for _ in range(count):
            size = self.u64(what)
            texts.append(self._text(self.take(size, what), size, what))
        return tuple(texts)

    def _skip_items(self, item_type: int, count: int, what: str, *, depth: int) -> None:
        if item_type in SCALARS:
            self.take(count * SCALARS[item_type][2], what)
        elif item_type == STRING:
            self._skip_strings(count, what)
        elif item_type != ARRAY:
            self.fail(f"{what} has elements of the unknown {type_name(item_type)}", at=self.pos)
        elif depth == MAX_ARRAY_DEPTH:
            self.fail(f"{what} nests arrays deeper than {MAX_ARRAY_DEPTH}")
        else:
            for _ in range(count):
                inner_type = self.u32(f"an element type of {what}")
                inner_count = self.u64(f"an element count of {what}")
                self._skip_items(inner_type, inner_count, what, depth=depth + 1)

    def _skip_strings(self, count: int, what: str) -> None:
        # The one hot loop of a header: a vocabulary is a few hundred thousand strings.
        if count * 8 > self._end - self.pos:
            self._fail_at_end(self.pos, count * 8, what)
        unpack, data, pos = self._u64.unpack_from, self._data, self.pos
        last_start = self._end - 8
        for _ in range(count):
            if pos > last_start:
                self._fail_at_end(min(pos, self._end), 8, f"a string of {what}")
            pos += 8 + unpack(data, pos)[0]
        if pos > self._end:
            self._fail_at_end(self.pos, pos - self.pos, what)
        self.pos = pos
