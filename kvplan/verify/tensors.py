"""A layout's tensors as torch has them, and the check that each has the predicted bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from kvplan.checks import Check, compare
from kvplan.engines.layout import Tensor
from kvplan.errors import UsageError
from kvplan.units import format_count


def element_type(torch: Any, tensor: Tensor) -> Any:
    """The torch element type that a layout names.

    Raises:
        UsageError: this build of torch does not have it.
    """
    found = getattr(torch, tensor.dtype, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(
            f"torch {torch.__version__} has no element type {tensor.dtype} (tensor {tensor.name})",
            hint="a newer torch, or another --dtype",
        )
    return found


def check_element_types(torch: Any, tensors: Sequence[Tensor]) -> None:
    """Raise UsageError, before anything is allocated, when a tensor cannot be made."""
    for tensor in tensors:
        element_type(torch, tensor)


def make(torch: Any, tensor: Tensor, device: str) -> Any:
    """The tensor on a device, each byte of it written."""
    made = torch.empty(tensor.shape, dtype=element_type(torch, tensor), device=device)
    made.view(-1).view(torch.uint8).zero_()
    return made


def real_bytes(torch: Any, tensor: Tensor) -> int:
    """Bytes that torch gives a tensor of this shape and element type."""
    return prod(tensor.shape) * int(element_type(torch, tensor).itemsize)


def held_bytes(tensor: Any) -> int:
    """Bytes that a real tensor holds: its own, or more where its storage is larger than it is."""
    return max(int(tensor.nbytes), int(tensor.untyped_storage().nbytes()))


def tensor_bytes_check(tensors: Sequence[Tensor], sizes: Sequence[int]) -> Check:
    """The sum of the tensors' bytes, where each single tensor must agree too.

    Args:
        tensors: what the layout names.
        sizes: `held_bytes` of the real tensors, as many as could be allocated.
    """
    predicted = sum(tensor.bytes for tensor in tensors)
    why = f"{format_count(len(tensors), 'tensor')}, each with the bytes of its shape and type"
    found = compare("tensor_bytes", predicted, sum(sizes), why)
    if len(sizes) < len(tensors):
        return _failed(found, f"{len(sizes)} of {len(tensors)} tensors could be allocated")
    for tensor, size in zip(tensors, sizes, strict=True):
        if tensor.bytes != size:
            return _failed(
                found,
                f"{tensor.name} {tensor.shape} {tensor.dtype} has {size:,} bytes, "
                f"not the {tensor.bytes:,} of the layout",
            )
    return found


def out_of_memory_check(done: int, wanted: int, said: str, predicted: int | None = None) -> Check:
    """The result that memory ran out after `done` tensors: a failed check, not an error.

    Args:
        done, wanted: tensors that could be allocated, and all there are.
        said: the system's own words.
        predicted: index of the tensor that was expected not to fit, if that was predicted.
    """
    return Check(
        name="out_of_memory",
        predicted=None if predicted is None else f"at tensor {predicted + 1} of {wanted}",
        measured=f"at tensor {done + 1} of {wanted}",
        difference=None if predicted is None else done - predicted,
        tolerance=None,
        ok=False,
        why=f"the device has no more memory; everything was freed ({said})",
        unit="tensors",
    )


def _failed(check: Check, why: str) -> Check:
    return replace(check, ok=False, why=why)
