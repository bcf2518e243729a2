"""One tensor as a cache holds it, and the storage behind it.

A view keeps its whole storage alive: a layer that keeps 4,095 tokens of a prefill of 9,000 holds
9,000. So every tensor has two sizes: its own (elements x item size) and what the allocator holds
for it; a tensor that shares another's storage holds 0. Bytes, integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from kvplan.dtypes import DType
from kvplan.errors import UsageError

# torch names and item sizes of what a transformers cache can hold.
ITEM_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "uint8": 1,
    "int32": 4,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor of one cache layer.

    Attributes:
        name: attribute of the layer (`keys`, `values`, `conv_states`, ...).
        shape: elements.
        dtype: torch name.
        held: bytes of the storage behind it that no tensor listed before it shares.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    held: int

    @property
    def bytes(self) -> int:
        """Elements x item size."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


def own(name: str, shape: tuple[int, ...], dtype: str) -> Held:
    """A tensor that is all of its storage."""
    return Held(name, shape, dtype, prod(shape) * ITEM_BYTES[dtype])


def view(name: str, shape: tuple[int, ...], axis: int, stored: int, dtype: str) -> Held:
    """A tensor cut along `axis` out of a storage of `stored` entries there."""
    whole = (*shape[:axis], stored, *shape[axis + 1 :])
    return Held(name, shape, dtype, prod(whole) * ITEM_BYTES[dtype])


def alias(name: str, shape: tuple[int, ...], dtype: str) -> Held:
    """A second name of a storage already listed."""
    return Held(name, shape, dtype, 0)


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer of a cache: the class that transformers uses and its tensors."""

    cls: str
    tensors: tuple[Held, ...]
    prefix: str = ""

    @property
    def bytes(self) -> int:
        """Sum over its tensors, views by their own size."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def held(self) -> int:
        """Bytes of the storages behind them."""
        return sum(tensor.held for tensor in self.tensors)


def renamed(tensors: Iterable[Held], names: dict[str, str]) -> tuple[Held, ...]:
    """The same tensors under the names another class gives them."""
    return tuple(Held(names.get(t.name, t.name), t.shape, t.dtype, t.held) for t in tensors)


def torch_name(dtype: DType) -> str:
    """The torch name of a format a model can run in.

    Raises:
        UsageError: the format is not one that transformers computes in.
    """
    if dtype.name not in ("float32", "float16", "bfloat16"):
        raise UsageError(
            f"transformers keeps its cache in the format the model runs in, not in {dtype.name}",
            hint="cache_implementation=quantized with backend=fp8, quanto or hqq stores fewer bits",
        )
    return dtype.name
