"""A layout's tensors as torch has them, and the check that each has the predicted bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from kvplan.engines.layout import Tensor
from kvplan.errors import UsageError
from kvplan.verify.checks import Check, compare


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


def shaped(torch: Any, storage: Any, tensor: Tensor) -> Any:
    """A one-dimensional uint8 tensor seen with the layout's element type and shape."""
    return storage.view(element_type(torch, tensor)).view(tensor.shape)


def real_bytes(torch: Any, tensor: Tensor) -> int:
    """Bytes that torch gives a tensor of this shape and element type."""
    return prod(tensor.shape) * int(element_type(torch, tensor).itemsize)


def tensor_bytes_check(tensors: Sequence[Tensor], sizes: Sequence[int]) -> Check:
    """The sum of the tensors' bytes, where each single tensor must agree too.

    Args:
        tensors: what the layout names.
        sizes: bytes of the real tensors, as many as could be allocated.
    """
    predicted = sum(tensor.bytes for tensor in tensors)
    why = f"{len(tensors)} tensors, each with the bytes of its shape and element type"
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


def _failed(check: Check, why: str) -> Check:
    from dataclasses import replace

    return replace(check, ok=False, why=why)
