"""XPU and MPS: tensors to the byte; what their allocators charge is shown, and only bounded."""

from __future__ import annotations

import gc

import pytest

from kvplan.checks import Check
from kvplan.engines.layout import Tensor
from kvplan.verify.devices import find_device
from tests.verify.fake_torch import MIB, FakeAccelerator, fake_torch

TENSORS = [Tensor("a", (100,), "float32", 400), Tensor("b", (MIB,), "bfloat16", 2 * MIB)]


def measured(kind: str, module: FakeAccelerator) -> dict[str, Check]:
    device = find_device(fake_torch(kind, module), kind)
    return {check.name: check for check in device.measure(TENSORS, lambda _: None).checks}


@pytest.mark.parametrize("kind", ["xpu", "mps"])
def test_the_allocators_figures_are_bounded_from_below(kind: str) -> None:
    """400 B and 2 MiB, charged as 3 MiB: shown, not decided; the tensors themselves agree."""
    module = FakeAccelerator(64 * MIB)

    found = measured(kind, module)
    gc.collect()

    assert found["tensor_bytes"].ok is True
    assert found["memory_allocated"].measured == 3 * MIB
    assert found["memory_allocated"].difference == MIB - 400
    assert found["memory_allocated"].ok is None
    assert found["left_after_free"].ok is True
    assert module.held == 0


def test_less_than_the_tensors_need_is_wrong() -> None:
    """A counter that stands still cannot be right."""
    module = FakeAccelerator(64 * MIB)
    module.memory_allocated = lambda index: 0  # type: ignore[method-assign]

    assert measured("xpu", module)["memory_allocated"].ok is False


@pytest.mark.parametrize("kind", ["xpu", "mps"])
def test_running_out_is_a_result(kind: str) -> None:
    """The second tensor does not fit into 2 MiB."""
    module = FakeAccelerator(2 * MIB)

    found = measured(kind, module)
    gc.collect()

    assert found["out_of_memory"].measured == "at tensor 2 of 2"
    assert found["tensor_bytes"].ok is False
    assert module.held == 0


def test_room() -> None:
    """mps has no free memory to report, only a recommended maximum and what its driver holds."""
    module = FakeAccelerator(64 * MIB)
    module.held = 4 * MIB

    for kind in ("xpu", "mps"):
        room = find_device(fake_torch(kind, module), kind).room()
        assert room is not None
        assert (room.total, room.free) == (64 * MIB, 60 * MIB)


def test_an_old_xpu_torch_does_not_say() -> None:
    """mem_get_info came later; without it nothing is claimed."""
    module = FakeAccelerator(64 * MIB)
    module.mem_get_info = None  # type: ignore[assignment]

    assert find_device(fake_torch("xpu", module), "xpu").room() is None
