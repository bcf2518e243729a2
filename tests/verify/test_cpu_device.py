"""A CPU host: every page of every tensor is resident, and none is left."""

from __future__ import annotations

import mmap
import sys

import pytest

from kvplan.engines.layout import Tensor
from kvplan.verify.devices import cpu, find_device
from kvplan.verify.devices.cpu import CpuDevice
from kvplan.verify.tensors import real_bytes

torch = pytest.importorskip("torch")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports single mappings")
PAGE = mmap.PAGESIZE


@pytest.fixture
def device() -> CpuDevice:
    found = find_device(torch, "cpu")
    assert isinstance(found, CpuDevice)
    return found


def named(device: CpuDevice, tensors: list[Tensor]) -> dict:
    return {check.name: check for check in device.measure(tensors, lambda _: None).checks}


@linux
def test_whole_pages_of_every_tensor(device: CpuDevice) -> None:
    """1 byte, 1 page, 1 page and 1 byte, 3 MiB: 1 + 1 + 2 + 768 pages of 4 KiB."""
    sizes = [1, PAGE, PAGE + 1, 3 << 20]
    tensors = [Tensor(f"t{n}", (n,), "uint8", n) for n in sizes]

    found = named(device, tensors)

    pages = 1 + 1 + 2 + (3 << 20) // PAGE
    assert found["tensor_bytes"].measured == sum(sizes)
    assert found["resident_bytes"].measured == pages * PAGE
    assert all(check.ok for check in found.values())


@linux
@pytest.mark.parametrize(
    ("dtype", "itemsize"),
    [("float32", 4), ("bfloat16", 2), ("float16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1),
     ("int8", 1), ("uint8", 1)],
)  # fmt: skip
def test_every_element_type(device: CpuDevice, dtype: str, itemsize: int) -> None:
    """The types that layouts name, at an odd shape."""
    tensor = Tensor("x", (3, 1001, 7), dtype, 3 * 1001 * 7 * itemsize)

    assert real_bytes(torch, tensor) == tensor.bytes
    assert all(check.ok for check in named(device, [tensor]).values())


@linux
def test_untouched_pages_would_show(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement is not the prediction in other words: without writing nothing is resident."""
    monkeypatch.setattr(cpu._Mapped, "touch", lambda self, advance: None)

    found = named(device, [Tensor("x", (1 << 20,), "uint8", 1 << 20)])

    assert found["resident_bytes"].measured == 0
    assert found["resident_bytes"].ok is False


def test_progress_adds_up(device: CpuDevice) -> None:
    """Every byte is announced once."""
    seen: list[int] = []
    device.measure([Tensor("x", (300,), "float32", 1200)] * 3, seen.append)

    assert sum(seen) == 3600


def test_an_empty_tensor_takes_nothing(device: CpuDevice) -> None:
    """A layout may name one; no mapping is made for it."""
    found = named(device, [Tensor("none", (0, 8), "bfloat16", 0)])

    assert found["tensor_bytes"].ok is True


def test_no_more_memory_is_a_result(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses the third mapping (strict overcommit); the two before are freed."""
    made = []
    real = cpu._private_mapping

    def limited(size: int) -> mmap.mmap:
        if len(made) == 3:  # the warm-up is the first
            raise OSError(12, "Cannot allocate memory")
        made.append(real(size))
        return made[-1]

    monkeypatch.setattr(cpu, "_private_mapping", limited)
    found = named(device, [Tensor("x", (PAGE,), "uint8", PAGE)] * 5)

    assert found["out_of_memory"].measured == "at tensor 3 of 5"
    assert found["tensor_bytes"].ok is False
    assert "resident_bytes" not in found
    assert all(mapped.closed for mapped in made)


def test_an_interrupt_frees_everything(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while pages are written."""
    made = []
    real = cpu._private_mapping
    monkeypatch.setattr(cpu, "_private_mapping", lambda size: made.append(real(size)) or made[-1])

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        device.measure([Tensor("x", (PAGE,), "uint8", PAGE)] * 2, interrupt)
    assert len(made) == 2
    assert all(mapped.closed for mapped in made)


def test_another_system_says_what_it_cannot_measure(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without smaps the tensors are checked and resident memory is left open."""
    monkeypatch.setattr(cpu, "held_in", lambda ranges: None)
    monkeypatch.setattr(cpu, "process_anonymous", lambda: None)

    found = named(device, [Tensor("x", (PAGE,), "uint8", PAGE)])

    assert found["tensor_bytes"].ok is True
    assert found["resident_bytes"].ok is None
    assert found["left_after_free"].ok is None
    assert "does not report" in found["resident_bytes"].why


def test_the_price_counts_pages_and_their_tables(device: CpuDevice) -> None:
    """Two pages, and 8 bytes of page table for each."""
    assert device.cost([Tensor("x", (PAGE + 1,), "uint8", PAGE + 1)]) == 2 * (PAGE + 8)
