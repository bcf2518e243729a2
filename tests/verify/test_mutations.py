"""What `verify` must not agree with: each row breaks one thing, and names the check that turns.

A layout that lost something on its way from `size`, an allocation that does not do what the layout
says, and an allocator model with another constant. The rows of the decode proof stand in
decode/test_mutations.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvplan.allocator import rounding
from kvplan.dtypes import CacheDTypes
from kvplan.engines import logical_layout
from kvplan.engines.layout import CacheLayout, RankLayout, Tensor
from kvplan.engines.request import Request
from kvplan.load import load_model
from kvplan.spec import states
from kvplan.verify import run
from kvplan.verify.devices import cpu
from tests.allocator.replay import load, replay, row
from tests.verify.fake_torch import MIB, FakeCuda, FakeTensor, fake_torch

torch = pytest.importorskip("torch")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports resident bytes")
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _alone(monkeypatch: Patch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)


def turned(
    model: str = "llama3-8b", engine: str = "logical", device: str = "cpu", **asked: Any
) -> set[str]:
    """Names of the checks that have failed."""
    request = Request(**{"ctx": 100, **asked})
    found = run.verify(load_model(model), request=request, engine=engine, device=device)
    return {check.name for check in found.checks if check.ok is False}


def relaid(patch: Patch, change: Callable[[CacheLayout], CacheLayout]) -> None:
    """Change every layout on its way from the engine to the device."""
    right = run._layout
    patch.setattr(run, "_layout", lambda *args: change(right(*args)))


def with_tensors(layout: CacheLayout, rank: int, tensors: tuple[Tensor, ...]) -> CacheLayout:
    runs = [
        RankLayout(rank=one.rank, tensors=tensors if one.rank == rank else one.tensors)
        for one in layout.ranks
    ]
    return layout.replaced(runs=tuple(runs))


def last_layer_left_out(patch: Patch) -> None:
    def change(layout: CacheLayout) -> CacheLayout:
        tensors = layout.ranks[0].tensors
        last = tensors[-1].name.rsplit(".", 1)[0]
        kept = tuple(one for one in tensors if not one.name.startswith(f"{last}."))
        return with_tensors(layout, 0, kept)

    relaid(patch, change)


def size_forgets_v(patch: Patch) -> None:
    def k_alone(self: states.HeadState, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(self.kv_heads, self.head_dim)

    patch.setattr(states.HeadState, "entry_bytes", k_alone)


def size_forgets_the_rotary_key(patch: Patch) -> None:
    def latent_alone(self: states.LatentAttention, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(1, self.kv_lora_rank)

    patch.setattr(states.LatentAttention, "entry_bytes", latent_alone)


def a_head_lost_on_rank_1(patch: Patch) -> None:
    def change(layout: CacheLayout) -> CacheLayout:
        first, *rest = layout.ranks[1].tensors
        *lead, heads, dim = first.shape
        fewer = Tensor(
            first.name, (*lead, heads - 1, dim), first.dtype, first.bytes // heads * (heads - 1)
        )
        return with_tensors(layout, 1, (fewer, *rest))

    relaid(patch, change)


def one_token_for_all(patch: Patch) -> None:
    patch.setattr(run, "_layout", lambda planned: planned.prepared.layout(1, planned.logical.batch))


def an_engine_plans_one_token(patch: Patch) -> None:
    """The engine's own figures agree with each other; only the model's need tells."""
    right = run._planned

    def planned(model: Any, request: Request, *rest: Any, **more: Any) -> Any:
        short = right(model, request.replaced(ctx=1), *rest, **more).allocated
        return right(model, request, *rest, **more)._replace(allocated=short)

    patch.setattr(run, "_planned", planned)


def pool_of(blocks: int) -> Callable[[Patch], None]:
    """A pool that many blocks larger than its own num_blocks says."""

    def mutate(patch: Patch) -> None:
        def change(layout: CacheLayout) -> CacheLayout:
            (pool,) = layout.ranks[0].tensors
            size = pool.bytes + blocks * layout.bytes_per_block[0]
            return with_tensors(layout, 0, (pool._replace(shape=(size,), bytes=size),))

        relaid(patch, change)

    return mutate


def a_wrong_width(patch: Patch) -> None:
    right = logical_layout._vectors

    def wide(*args: Any) -> Any:
        return tuple(replace(one, dim=one.dim + 1)
                     for one in right(*args))  # fmt: skip

    patch.setattr(logical_layout, "_vectors", wide)


def a_wrong_element_type(patch: Patch) -> None:
    patch.setitem(logical_layout._ELEMENTS, "bfloat16", "float32")


def a_tensor_skipped(patch: Patch) -> None:
    right = run._measure

    def without_last(device: Any, rank: RankLayout, *rest: Any) -> Any:
        return right(device, rank.replaced(tensors=rank.tensors[:-1]), *rest)

    patch.setattr(run, "_measure", without_last)


def mapped_bytes(more: int) -> Callable[[Patch], None]:
    def mutate(patch: Patch) -> None:
        right = cpu.real_bytes
        patch.setattr(cpu, "real_bytes", lambda *args: right(*args) + more if right(*args) else 0)

        def flat(self: cpu._Mapped, torch: Any, tensor: Tensor) -> None:
            size = cpu.real_bytes(torch, tensor)
            self._map = cpu._private_mapping(size)
            self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)[:size]
            self._tensor = self._bytes

        patch.setattr(cpu._Mapped, "__init__", flat)

    return mutate


def a_view_of_a_larger_tensor(patch: Patch) -> None:
    right = cpu._private_mapping
    patch.setattr(cpu, "_private_mapping", lambda size: right(2 * size))


def a_page_untouched(patch: Patch) -> None:
    right = cpu._Mapped.touch

    def touch(self: cpu._Mapped, advance: Any) -> None:
        whole = self._bytes
        self._bytes = None if whole is None else whole[: -cpu.PAGE]
        right(self, advance)
        self._bytes = whole

    patch.setattr(cpu._Mapped, "touch", touch)


def a_leak(patch: Patch) -> None:
    kept: list[Any] = []
    patch.setattr(cpu._Mapped, "close", lambda self: kept.append((self._map, self._bytes)))


def a_temporary(patch: Patch) -> None:
    right = cpu._Mapped.touch

    def touch(self: cpu._Mapped, advance: Any) -> None:
        torch.ones(16 << 20)  # 64 MiB, gone at once; above what malloc ever serves from its heap
        right(self, advance)

    patch.setattr(cpu._Mapped, "touch", touch)


# what is wrong, how, with which request, and the check that turns
ROWS: list[tuple[str, Callable[[Patch], None], dict[str, Any], str]] = [
    ("the last layer left out", last_layer_left_out, {}, "layout_bytes"),
    ("size forgets V", size_forgets_v, {}, "layout_bytes"),
    ("size forgets the rotary key", size_forgets_the_rotary_key, {"model": "deepseek-v3"},
     "layout_bytes"),
    ("a head lost on rank 1", a_head_lost_on_rank_1, {"tp": 2}, "layout_bytes"),
    ("a tensor lost on rank 1 of transformers", (
        lambda patch: relaid(patch, lambda one: with_tensors(one, 1, one.ranks[1].tensors[1:]))),
     {"tp": 2, "engine": "transformers"}, "layout_bytes"),
    ("one token for 100", one_token_for_all, {}, "layout_bytes"),
    ("one token for 100, vllm", one_token_for_all, {"engine": "vllm"}, "layout_bytes"),
    ("one token for 100, transformers", one_token_for_all, {"engine": "transformers"},
     "layout_bytes"),
    ("vllm plans one token", an_engine_plans_one_token, {"engine": "vllm"}, "model_bytes"),
    ("transformers plans one token", an_engine_plans_one_token, {"engine": "transformers"},
     "model_bytes"),
    ("a block less than num_blocks", pool_of(-1), {"engine": "vllm"}, "layout_bytes"),
    ("a block more than num_blocks", pool_of(1), {"engine": "vllm"}, "layout_bytes"),
    ("vectors of another width", a_wrong_width, {}, "layout_bytes"),
    ("float32 for bfloat16", a_wrong_element_type, {}, "tensor_bytes"),
    ("a tensor that is not allocated", a_tensor_skipped, {}, "layout_bytes"),
    ("a byte more than the tensor", mapped_bytes(1), {}, "tensor_bytes"),
    ("a byte less than the tensor", mapped_bytes(-1), {}, "tensor_bytes"),
    ("a view of a larger tensor", a_view_of_a_larger_tensor, {}, "tensor_bytes"),
    ("a page that nobody writes", a_page_untouched, {}, "resident_bytes"),
    ("memory that stays", a_leak, {}, "left_after_free"),
    ("a temporary of 64 MiB", a_temporary, {}, "peak_bytes"),
]  # fmt: skip


@linux
@pytest.mark.parametrize(
    ("mutate", "asked", "check"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_cpu(
    mutate: Callable[[Patch], None], asked: dict[str, Any], check: str, monkeypatch: Patch
) -> None:
    """Nothing fails without the mutation, and the named check with it."""
    assert turned(**asked) == set()

    mutate(monkeypatch)

    assert check in turned(**asked)


def test_a_lost_rank_decides_nothing(monkeypatch: Patch) -> None:
    """Ranks that did not report leave the sum open; that they are gone fails elsewhere."""
    model = load_model("llama3-8b")
    asked = Request(ctx=10, tp=2)
    planned = run._planned(model, asked, "logical", None, allow_network=False)

    (check,) = run.layout_checks(planned, run._layout(planned), [])

    assert check.ok is None


def cuda_turned(monkeypatch: Patch, change: Callable[[FakeCuda, Any], None]) -> set[str]:
    cuda = FakeCuda(4096 * MIB)
    module = fake_torch("cuda", cuda)
    change(cuda, module)
    monkeypatch.setattr(run, "need_torch", lambda: module)
    return turned(device="cuda")


def cuda_leak(cuda: FakeCuda, module: Any) -> None:
    right, kept = cuda.make, []

    def make(nbytes: int) -> FakeTensor:
        made = right(nbytes)
        if cuda.touched[2:]:  # after the warm-up
            kept.append(made)
        return made

    cuda.make = make  # type: ignore[method-assign]


def cuda_temporary(cuda: FakeCuda, module: Any) -> None:
    right = cuda.make

    def make(nbytes: int) -> FakeTensor:
        made = right(nbytes)
        right(32 * MIB)
        return made

    cuda.make = make  # type: ignore[method-assign]


def cuda_byte(more: int) -> Callable[[FakeCuda, Any], None]:
    def change(cuda: FakeCuda, module: Any) -> None:
        right = cuda.make
        cuda.make = lambda nbytes: right(nbytes + more)  # type: ignore[method-assign]

    return change


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (cuda_leak, "left_after_free"),
        (cuda_temporary, "memory_reserved_peak"),
        (cuda_byte(1), "tensor_bytes"),
        (cuda_byte(-1), "tensor_bytes"),
    ],
    ids=["a leak", "a temporary", "a byte more", "a byte less"],
)
def test_cuda(change: Callable[[FakeCuda, Any], None], check: str, monkeypatch: Patch) -> None:
    """The same on a device with torch's allocator."""
    assert cuda_turned(monkeypatch, lambda *_: None) == set()

    assert check in cuda_turned(monkeypatch, change)


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("MIN_BLOCK", 256),
        ("SMALL_MAX", 2 * MIB),
        ("SMALL_SEGMENT", 4 * MIB),
        ("OWN_SEGMENT_MIN", 12 * MIB),
        ("OWN_SEGMENT_STEP", MIB),
    ],
)
def test_allocator_constants(constant: str, value: int, monkeypatch: Patch) -> None:
    """Another value of any constant disagrees with what real allocators did."""
    data = load("allocator_golden.json")

    def differs() -> bool:
        return any(
            [row(failed, one, data["columns"]) for failed, one in steps] != case["rows"]
            for case in data["cases"]
            for steps in [replay(case, data["sequences"][case["sequence"]], case["torch"][0])]
        )

    assert not differs()
    monkeypatch.setattr(rounding, constant, value)
    assert differs()
