"""`verify` on this host: the layout of `size`, measured without a byte of difference."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvplan.checks import Check, Verification
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import load_model
from kvplan.plan.size import size
from kvplan.verify.run import Limits, verify

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident bytes")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def verified(name: str, *, engine: str = "logical", limits: Limits | None = None, **asked: object):
    return verify(
        load_model(name),
        request=Request(**asked),  # type: ignore[arg-type]
        engine=engine,
        device="cpu",
        limits=limits,
    )


def checks(found: Verification) -> dict[str, Check]:
    return {check.name: check for check in found.checks}


def test_half_a_gibibyte() -> None:
    """Llama 3 8B, 4,096 tokens: 2 x 32 layers x 8 heads x 128 x 2 B x 4,096 = 512 MiB."""
    found = verified("llama3-8b", ctx=4096)

    assert found.ok
    for name in ("tensor_bytes", "resident_bytes"):
        check = checks(found)[name]
        assert (check.predicted, check.measured, check.difference) == (536_870_912, 536_870_912, 0)


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm"])
@pytest.mark.parametrize("model", ["deepseek-v3", "gemma-3-27b", "qwen3.6-27b"])
def test_layouts(model: str, engine: str) -> None:
    """Latents, windows and recurrent states, as each engine lays them out."""
    found = verified(model, engine=engine, ctx=700)

    assert found.ok
    assert checks(found)["resident_bytes"].difference == 0
    allocated = size(model, ctx=700, engine=engine).allocated
    expected = size(model, ctx=700).logical.bytes if allocated is None else allocated.bytes
    assert checks(found)["tensor_bytes"].measured == expected


@pytest.mark.parametrize("dtype", ["fp8", "q8_0", "int8_per_token_head", "nvfp4"])
def test_formats(dtype: str) -> None:
    """Blocks and scales take what the formula says."""
    found = verified("llama3-8b", ctx=100, dtype=dtype)

    assert found.ok
    assert checks(found)["tensor_bytes"].measured == found.size.logical.bytes


def test_ranks_one_after_the_other() -> None:
    """One process takes both; the sum is the whole."""
    found = verified("llama3-8b", ctx=100, tp=2)

    assert [report.rank for report in found.ranks] == [0, 1]
    assert checks(found)["tensor_bytes"].measured == size("llama3-8b", ctx=100).logical.bytes


@pytest.mark.parametrize("limits", [Limits(fraction=0.01), Limits(max_bytes=6_000_000)])
def test_a_smaller_cache_says_so(limits: Limits) -> None:
    """Same tensors, fewer tokens, and never more than asked."""
    found = verified("llama3-8b", ctx=4096, batch=8, limits=limits)
    whole = size("llama3-8b", ctx=4096, batch=8).logical.bytes

    assert found.ok
    assert "a smaller cache of the same layout" in found.notes[0]
    assert found.layout is not None
    assert len(found.layout.ranks[0].tensors) == 64
    allowed = limits.max_bytes or int(whole * limits.fraction)
    assert 0.9 * allowed < found.layout.bytes <= allowed


def test_a_cache_within_its_limits_is_whole() -> None:
    """Nothing to say then."""
    found = verified("llama3-8b", ctx=10, limits=Limits(max_bytes=1 << 30))

    assert found.size.logical.ctx == 10
    assert found.notes == ()


def test_quick_takes_one_layer_of_each_kind() -> None:
    """Gemma 3n E4B: of its 35 layers a sliding, a full, one that shares each, and those they read.

    With 4,096 tokens a full layer keeps 4,096 x 2 x 2 heads x 256 x 2 B = 8 MiB, a window of 512
    tokens 1 MiB; two of each lie before the layers that share.
    """
    found = verify(load_model("gemma-3n-e4b"), request=Request(ctx=4096), device="cpu", quick=True)

    assert found.ok
    assert found.notes == ("quick: 6 of 35 layers, at least one of each kind",)
    assert checks(found)["layout_bytes"].measured == 2 * (8 << 20) + 2 * (1 << 20)


def test_quick_keeps_a_layer_per_stage() -> None:
    """A pipeline of 4 stages has 4 layers at least."""
    asked = Request(ctx=100, pp=4)
    found = verify(load_model("llama3-8b"), request=asked, device="cpu", quick=True)

    assert [report.rank for report in found.ranks] == [0, 1, 2, 3]


def test_no_cache_is_that_small() -> None:
    """The recurrent states alone take more."""
    with pytest.raises(UsageError, match="no cache of this layout is that small"):
        verified("qwen3.6-27b", ctx=4096, limits=Limits(max_bytes=1000))


def test_no_room() -> None:
    """A cache of a petabyte is refused before anything is allocated."""
    with pytest.raises(UsageError, match="to stay free"):
        verified("llama3-8b", ctx=8192, batch=2**20)


def test_an_engine_that_refuses() -> None:
    """Nothing to allocate: the engine's own words."""
    with pytest.raises(UsageError, match="refuses this request"):
        verified("llama3-8b", engine="vllm", ctx=4096, tp=7)


def test_a_device_that_breaks_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch raises in the middle is told in one line, not as a traceback."""
    from kvplan.verify.devices.cpu import CpuDevice

    def breaks(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access\nlong advice")

    monkeypatch.setattr(CpuDevice, "measure", breaks)
    with pytest.raises(UsageError, match=r"illegal memory access$"):
        verified("llama3-8b", ctx=10)


def test_progress_covers_every_byte() -> None:
    """One bar per rank, each moved by all of its bytes."""
    bars: list[list[int]] = []

    @contextmanager
    def bar(total: int, what: str) -> Iterator:
        moved: list[int] = []
        yield moved.append
        bars.append([total, sum(moved)])

    verify(
        load_model("llama3-8b"),
        request=Request(ctx=50, tp=2),
        device="cpu",
        progress=bar,
    )
    # 50 tokens x 131,072 B, half on each rank
    assert bars == [[50 * 65_536] * 2] * 2
