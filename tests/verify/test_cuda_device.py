"""A CUDA measurement: predicted to the byte, undecided where it must be, nothing left behind."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from kvplan.allocator.config import UNCACHED_VARIABLES
from kvplan.checks import Check
from kvplan.engines.layout import Tensor
from kvplan.errors import UsageError
from kvplan.verify.devices import cuda as room
from kvplan.verify.devices import find_device
from kvplan.verify.devices.cuda import CudaDevice
from kvplan.verify.devices.cuda_checks import memory_checks
from kvplan.verify.devices.cuda_state import State
from kvplan.verify.devices.device import Measurement, Room
from kvplan.verify.devices.forecast import Build, Forecast, settings_of, unpredictable
from kvplan.verify.safety import require_room
from tests.verify.fake_torch import MIB, FakeCuda, fake_torch

_C, _H = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                 "PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def tensors(count: int, elements: int = 1_024_000) -> list[Tensor]:
    """Tensors of 2,048,000 bytes: 1,000 tokens of 8 heads of 128 elements in bfloat16."""
    return [Tensor(f"t{i}", (elements,), "bfloat16", 2 * elements) for i in range(count)]


def measured(cuda: FakeCuda, wanted: list[Tensor], **torch: str) -> dict[str, Check]:
    found: Measurement = CudaDevice(fake_torch("cuda", cuda, **torch), 0).measure(
        wanted, lambda _: None
    )
    return {check.name: check for check in found.checks}


def test_every_figure_agrees() -> None:
    """64 tensors of 2,048,000 B: ten in each segment of 20 MiB, seven segments.

    Ten take 20,480,000 of 20,971,520 B. The 491,520 left are too little to split off, so the tenth
    is charged with them, in six full segments.
    """
    cuda = FakeCuda(80 * 1024 * MIB)

    found = measured(cuda, tensors(64))

    assert all(check.ok for check in found.values())
    assert found["tensor_bytes"].measured == 131_072_000
    assert found["memory_requested"].measured == 131_072_000
    assert found["memory_allocated"].measured == 131_072_000 + 6 * 491_520
    assert found["memory_reserved"].measured == 7 * 20_971_520
    assert found["driver_used"].measured == 7 * 20_971_520
    assert found["left_after_free"].measured == 0


def test_every_tensor_is_touched_after_the_warm_up() -> None:
    """Each is written once; two blocks before them load what the first write needs."""
    cuda = FakeCuda(1024 * MIB)

    measured(cuda, tensors(3))

    assert cuda.touched == [4 * MIB, 512, 2_048_000, 2_048_000, 2_048_000]


def test_a_wrong_figure_fails() -> None:
    """One byte more than predicted is a failed check with the difference in it."""
    cuda = FakeCuda(1024 * MIB)
    cuda.on_synchronize = lambda: setattr(cuda, "skew", 1 if cuda.touched[2:] else 0)

    found = measured(cuda, tensors(3))

    assert found["memory_allocated"].ok is False
    assert found["memory_allocated"].difference == 1
    assert found["tensor_bytes"].ok is True


def test_other_tensors_alive_predict_nothing() -> None:
    """What the process already holds decides where new tensors go, so nothing is claimed."""
    cuda = FakeCuda(1024 * MIB)
    alive = cuda.make(5 * MIB)

    found = measured(cuda, tensors(3))

    assert found["memory_allocated"].ok is None
    assert found["memory_allocated"].predicted is None
    assert "already holds 5,242,880 B" in found["memory_allocated"].why
    assert found["tensor_bytes"].ok is True
    assert alive.nbytes == 5 * MIB


@pytest.mark.parametrize(
    ("backend", "version", "why"),
    [
        ("cudaMallocAsync", "2.14.1", "driver pool's"),
        ("native", "2.15.0", "2.15"),
        ("native", "2.5.1", "2.5"),
    ],
)
def test_an_unknown_allocator_predicts_nothing(backend: str, version: str, why: str) -> None:
    """Other backends, and versions whose rules were never compared."""
    found = measured(FakeCuda(1024 * MIB, backend=backend), tensors(3), version=version)

    for name in ("memory_allocated", "memory_reserved", "driver_used"):
        assert found[name].ok is None
        assert why in found[name].why


def test_running_out_is_a_result() -> None:
    """With 60 MiB only three segments fit: 30 tensors, as predicted; everything is given back."""
    cuda = FakeCuda(60 * MIB)

    found = measured(cuda, tensors(64))
    gc.collect()

    assert found["tensor_bytes"].ok is False
    assert found["tensor_bytes"].measured == 30 * 2_048_000
    assert found["out_of_memory"].ok is False
    assert found["out_of_memory"].predicted == "at tensor 31 of 64"
    assert found["out_of_memory"].measured == "at tensor 31 of 64"
    assert "second line" not in found["out_of_memory"].why
    assert found["memory_reserved"].ok is True
    assert found["left_after_free"].ok is True
    assert cuda.allocator.stats.reserved.current == 0


def test_running_out_elsewhere_compares_nothing() -> None:
    """Someone else took memory in between: the figures belong to another sequence."""
    cuda = FakeCuda(60 * MIB)
    device = CudaDevice(fake_torch("cuda", cuda), 0)
    first = True

    def advance(_: int) -> None:
        nonlocal first
        if first:
            first = False
            cuda.allocator.device.take(20 * MIB)

    found = {c.name: c for c in device.measure(tensors(64), advance).checks}

    assert found["out_of_memory"].predicted == "at tensor 31 of 64"
    assert found["out_of_memory"].measured == "at tensor 21 of 64"
    assert found["memory_allocated"].ok is None
    assert "another tensor than predicted" in found["memory_allocated"].why


def test_others_on_the_device_leave_the_drivers_view_open() -> None:
    """Free memory moved by more than ours and did not come back: not our disagreement."""
    cuda = FakeCuda(1024 * MIB)
    device = CudaDevice(fake_torch("cuda", cuda), 0)

    def advance(_: int) -> None:
        cuda.allocator.device.take(2 * MIB)

    found = {c.name: c for c in device.measure(tensors(1), advance).checks}

    assert found["driver_used"].ok is None
    assert found["driver_used"].measured == 22 * MIB
    assert "-2,097,152" in found["driver_used"].why
    assert found["memory_reserved"].ok is True


def test_an_interrupt_frees_everything() -> None:
    """Ctrl-C between two tensors leaves nothing allocated or reserved."""
    cuda = FakeCuda(1024 * MIB)
    device = CudaDevice(fake_torch("cuda", cuda), 0)

    def advance(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        device.measure(tensors(3), advance)
    gc.collect()

    assert cuda.allocator.stats.allocated.current == 0


def test_the_price_is_what_torch_reserves() -> None:
    """One tensor of 2,048,000 B costs a segment of 20 MiB."""
    device = CudaDevice(fake_torch("cuda", FakeCuda(1024 * MIB)), 0)

    assert device.cost(tensors(1)) == 20 * MIB


def test_options_that_torch_refuses_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before torch starts the device, with the option's name."""
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "nonsense:1")

    with pytest.raises(Exception, match="nonsense"):
        CudaDevice(fake_torch("cuda", FakeCuda(1024 * MIB)), 0)


def test_a_device_that_does_not_start_is_one_error() -> None:
    """What torch raises becomes one line."""
    cuda = FakeCuda(1024 * MIB)

    def broken(_: int) -> None:
        raise RuntimeError("CUDA driver version is insufficient\nmore")

    cuda.set_device = broken  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="driver version is insufficient"):
        CudaDevice(fake_torch("cuda", cuda), 0)


def test_a_missing_element_type_is_said_before_anything_is_allocated() -> None:
    """An old torch lacks newer formats."""
    cuda = FakeCuda(1024 * MIB)
    wanted = [*tensors(1), Tensor("new", (4,), "float3_future", 4)]

    with pytest.raises(UsageError, match="no element type float3_future"):
        CudaDevice(fake_torch("cuda", cuda), 0).measure(wanted, lambda _: None)
    assert cuda.touched == []


def test_bytes_that_do_not_follow_from_the_shape_fail() -> None:
    """A layout whose bytes and shape disagree is caught even where the sums would agree."""
    cuda = FakeCuda(1024 * MIB)
    wanted = [Tensor("a", (100,), "bfloat16", 300), Tensor("b", (200,), "bfloat16", 300)]

    found = measured(cuda, wanted)

    assert found["tensor_bytes"].difference == 0
    assert found["tensor_bytes"].ok is False
    assert "a (100,) bfloat16 has 200 bytes, not the 300" in found["tensor_bytes"].why


@pytest.mark.parametrize(
    ("text", "message"),
    [("tpu", "not a device"), ("cuda:x", "not a device"), ("cuda:7", "sees 1 cuda device"),
     ("cpu:1", "one cpu"), ("xpu", "sees no xpu")],
)  # fmt: skip
def test_devices_that_are_not_there(text: str, message: str) -> None:
    """Each name that cannot be used has its own sentence."""
    with pytest.raises(UsageError, match=message):
        find_device(fake_torch("cuda", FakeCuda(1024 * MIB)), text)


def test_auto_takes_the_accelerator() -> None:
    """The first that torch sees."""
    assert find_device(fake_torch("cuda", FakeCuda(1024 * MIB)), "auto").name == "cuda:0"


def test_each_rank_needs_a_device_of_its_own() -> None:
    """Two ranks on a host with one device are refused."""
    with pytest.raises(UsageError, match="rank 1 of this host needs cuda:1"):
        find_device(fake_torch("cuda", FakeCuda(1024 * MIB)), "cuda", local_rank=1)


def test_facts_are_plain() -> None:
    """What a report prints of the device."""
    facts = CudaDevice(fake_torch("cuda", FakeCuda(1024 * MIB, other=24 * MIB)), 0).facts()

    assert facts["type"] == "cuda"
    assert facts["total_bytes"] == 1024 * MIB
    assert facts["free_bytes"] == 1000 * MIB
    assert facts["compute_capability"] == "9.0"
    assert facts["nvml"] is None


@pytest.mark.parametrize("name", UNCACHED_VARIABLES)
def test_without_caching_nothing_is_predicted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either name: torch then counts nothing."""
    monkeypatch.setenv(name, "1")

    found = measured(FakeCuda(1024 * MIB), tensors(3))

    assert found["memory_allocated"].ok is None
    assert "uncached" in found["memory_allocated"].why


def test_nothing_left_of_nothing_is_no_agreement() -> None:
    """An allocator that counts nothing shows 0 before, with and after the tensors."""
    nothing = State(0, 0, 0, 0, 0, 100, 100)

    checks = memory_checks(unpredictable("x"), nothing, nothing, nothing, failed_at=None)

    assert {check.ok for check in checks} == {None}


def test_a_share_of_the_device_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process may hold is less than what is free: refused before anything is allocated."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.25")
    device = CudaDevice(fake_torch("cuda", FakeCuda(1024 * MIB)), 0)

    assert device.room().free == 256 * MIB
    with pytest.raises(UsageError, match="per_process_memory_fraction"):
        require_room(device, 300 * MIB)


def test_unified_memory_is_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver counts cached files as used, and running out there would take the host along."""
    cuda = FakeCuda(1024 * MIB, other=900 * MIB)
    right = cuda.get_device_properties

    def integrated(index: int) -> object:
        return SimpleNamespace(**vars(right(index)), is_integrated=True)

    monkeypatch.setattr(cuda, "get_device_properties", integrated)
    monkeypatch.setattr(room, "host_room", lambda: Room(2048 * MIB, 1500 * MIB, "MemAvailable"))
    device = CudaDevice(fake_torch("cuda", cuda), 0)

    assert device.room() == Room(2048 * MIB, 1500 * MIB, "unified memory, MemAvailable")
    with pytest.raises(UsageError, match="to stay free"):
        require_room(device, 4096 * MIB, allow_oom=True)


@pytest.mark.parametrize(("alone", "ok"), [(True, False), (False, None)])
def test_a_neighbour_that_returns_what_it_took(alone: bool, ok: bool | None) -> None:
    """Memory that comes and goes is nobody's disagreement, unless this process is alone."""
    expected = Forecast(requested=1, allocated=1, reserved=1, driver=10, allocated_peak=1,
                        reserved_peak=1)  # fmt: skip
    quiet, used = State(0, 0, 0, 0, 0, 100, 100), State(1, 1, 1, 1, 1, 88, 100)

    checks = memory_checks(expected, quiet, used, quiet, failed_at=None, alone=alone)

    assert {check.name: check.ok for check in checks}["driver_used"] is ok


@pytest.mark.parametrize(
    ("build", "environment", "expected"),
    [
        (Build(version="2.14.1"), {_C: "expandable_segments:True"}, True),
        (Build(version="2.14.1", windows=True), {_C: "expandable_segments:True"}, False),
        (Build(version="2.14.1", hip="6.4.2"), {_C: "expandable_segments:True"}, False),
        (Build(version="2.14.1", hip="7.0.1"), {_C: "expandable_segments:True"}, True),
        (Build(version="2.9.1", hip="7.0.1"), {_H: "expandable_segments:True"}, True),
        (Build(version="2.9.1"), {_H: "expandable_segments:True"}, False),
    ],
)
def test_options_by_build(build: Build, environment: dict[str, str], expected: bool) -> None:
    """Where torch ignores expandable segments they are not predicted; ROCm has its own name."""
    found = settings_of(environment, build)

    assert not isinstance(found, str)
    assert found.expandable_segments is expected


@pytest.mark.parametrize(
    "build",
    [Build(version="2.10.0a0+b558c986e8.nv25.12"), Build(version="2.14.0.dev20260101+cu130"),
     Build(version="2.9.0rc1")],
)  # fmt: skip
def test_builds_between_releases(build: Build) -> None:
    """Whose rules they have is not known."""
    assert "between releases" in str(settings_of({}, build))


def test_torch_reads_the_digits_of_a_number() -> None:
    """`max_split_size_mb:64MB` is 64 to it."""
    found = settings_of({_C: "max_split_size_mb:64MB"}, Build(version="2.14.1"))

    assert not isinstance(found, str)
    assert found.max_split_bytes == 64 * MIB
