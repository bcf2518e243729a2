"""The logical cache as tensors: the bytes of the formula, whatever the model and the format."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.dtypes import DTYPES
from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout, RankLayout
from kvplan.engines.logical import logical_cache
from kvplan.engines.logical_engine import LogicalEngine
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet
from kvplan.spec.states import FullAttention, LatentAttention
from tests.strategies import specs

ELEMENT_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "uint8": 1,
}  # fmt: skip


def layout(spec: ModelSpec, **request: object) -> CacheLayout:
    return LogicalEngine().layout(spec, Request(**request))  # type: ignore[arg-type]


def shapes(rank: RankLayout) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in rank.tensors}


def model(*states: object, layers: int = 1, **fields: object) -> ModelSpec:
    return ModelSpec(
        name="m", dtype="bfloat16", kinds={"a": states}, layers=("a",) * layers, **fields
    )  # type: ignore[arg-type]


def holds(found: CacheLayout, spec: ModelSpec, request: Request) -> None:
    """Tensors have the bytes of their shapes, and together those of the logical cache."""
    for rank in found.ranks:
        names = [tensor.name for tensor in rank.tensors]
        assert len(names) == len(set(names))
        for tensor in rank.tensors:
            assert tensor.bytes == prod(tensor.shape) * ELEMENT_BYTES[tensor.dtype] > 0
    assert found.bytes == logical_cache(spec, request).bytes


@pytest.fixture(scope="module")
def catalogue() -> list[ModelSpec]:
    return [entry.spec() for entry in Catalogue([]).entries()]


@pytest.mark.parametrize("dtype", ["auto", *DTYPES])
def test_every_model_of_the_catalogue(catalogue: list[ModelSpec], dtype: str) -> None:
    """In every format, at an odd length, the tensors add up to the logical bytes."""
    assert len(catalogue) > 200
    for spec in catalogue:
        if not spec.dtype and dtype not in ("float32", "float16", "bfloat16"):
            continue  # nothing says which format its convolution columns have
        request = Request(ctx=1003, batch=3, dtype=dtype)
        holds(LogicalEngine().layout(spec, request), spec, request)


@pytest.mark.parametrize(("tp", "pp", "dp"), [(2, 1, 1), (3, 2, 1), (8, 1, 2), (16, 4, 3)])
def test_ranks_hold_the_whole_and_nothing_twice(
    catalogue: list[ModelSpec], tp: int, pp: int, dp: int
) -> None:
    """However many ranks, even more than there are heads or sequences."""
    for spec in catalogue:
        dtype = "auto" if spec.dtype else "bf16"
        request = Request(ctx=1003, batch=2, dtype=dtype, tp=tp, pp=pp, dp=dp, with_draft=True)
        found = LogicalEngine().layout(spec, request)
        assert [rank.rank for rank in found.ranks] == list(range(tp * pp * dp))
        holds(found, spec, request)


@given(
    specs(), st.integers(1, 500), st.integers(1, 5), st.sampled_from(list(DTYPES)),
    st.sampled_from(list(DTYPES)), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3),
)  # fmt: skip
def test_any_spec(
    spec: ModelSpec, ctx: int, batch: int, k: str, v: str, tp: int, pp: int, dp: int
) -> None:
    """K and V in different formats, any kinds of state, any division among ranks."""
    request = Request(ctx=ctx, batch=batch, dtype_k=k, dtype_v=v, tp=tp, pp=pp, dp=dp)
    holds(LogicalEngine().layout(spec, request), spec, request)


def test_heads() -> None:
    """K and V per layer, sequences first, then tokens."""
    spec = model(FullAttention(kv_heads=2, head_dim=8, v_head_dim=4), layers=2)
    assert shapes(layout(spec, ctx=10, batch=3).ranks[0]) == {
        "layers.0.k": (3, 10, 2, 8),
        "layers.0.v": (3, 10, 2, 4),
        "layers.1.k": (3, 10, 2, 8),
        "layers.1.v": (3, 10, 2, 4),
    }


def test_scales_are_tensors_of_their_own() -> None:
    """One float32 per vector beside the values."""
    spec = model(FullAttention(kv_heads=2, head_dim=8))
    found = layout(spec, ctx=10, dtype="fp8_per_token_head").ranks[0]
    assert [(t.name, t.shape, t.dtype, t.bytes) for t in found.tensors] == [
        ("layers.0.k", (1, 10, 2, 8), "float8_e4m3fn", 160),
        ("layers.0.k_scale", (1, 10, 2), "float32", 80),
        ("layers.0.v", (1, 10, 2, 8), "float8_e4m3fn", 160),
        ("layers.0.v_scale", (1, 10, 2), "float32", 80),
    ]


def test_blocks_are_rows_of_bytes() -> None:
    """q8_0: 2 heads x 64 elements are 4 blocks of 34 bytes per token."""
    spec = model(FullAttention(kv_heads=2, head_dim=64))
    assert shapes(layout(spec, ctx=10, dtype="q8_0").ranks[0])["layers.0.k"] == (1, 10, 136)


def test_recurrent_states_keep_their_own_formats() -> None:
    """Columns in the model's format, the matrix in float32, whatever the cache's format."""
    state = GatedDeltaNet(k_heads=2, k_head_dim=4, v_heads=4, v_head_dim=8, conv_kernel=4)
    found = layout(model(state), ctx=10, batch=2, dtype="fp8").ranks[0]
    assert [(t.name, t.shape, t.dtype) for t in found.tensors] == [
        ("layers.0.conv", (2, 2 * 2 * 4 + 4 * 8, 3), "bfloat16"),
        ("layers.0.matrix", (2, 4, 4, 8), "float32"),
    ]


def test_two_states_in_one_layer_have_names_of_their_own() -> None:
    """LongCat keeps two attention blocks per layer."""
    one = FullAttention(kv_heads=1, head_dim=8)
    assert list(shapes(layout(model(one, one), ctx=1).ranks[0])) == [
        "layers.0.0.k", "layers.0.0.v", "layers.0.1.k", "layers.0.1.v",
    ]  # fmt: skip


def test_ranks_divide_heads_then_tokens() -> None:
    """8 heads on 4 ranks are 2 each; a latent has none, so its 10 tokens go 2, 3, 2, 3."""
    heads = layout(model(FullAttention(kv_heads=8, head_dim=8)), ctx=10, tp=4)
    latent = layout(model(LatentAttention(kv_lora_rank=8, qk_rope_head_dim=2)), ctx=10, tp=4)

    assert [shapes(rank)["layers.0.k"] for rank in heads.ranks] == [(1, 10, 2, 8)] * 4
    assert [shapes(rank)["layers.0.latent"] for rank in latent.ranks] == [
        (1, 2, 10), (1, 3, 10), (1, 2, 10), (1, 3, 10),
    ]  # fmt: skip


def test_logical_is_an_engine_without_versions() -> None:
    """It can be named like any engine, but not with a version."""
    engine, version = find_engine("logical")
    spec = model(FullAttention(kv_heads=1, head_dim=8))

    assert engine.layout(spec, Request(ctx=4), version).bytes == 4 * 2 * 8 * 2
    with pytest.raises(UsageError, match="no versions"):
        engine.layout(spec, Request(ctx=4), "1.0")
    with pytest.raises(UsageError, match="decode context"):
        engine.layout(spec, Request(ctx=4, dcp=2), "")


def test_ranks_do_not_cut_through_a_block_of_two() -> None:
    """3 heads of 65 in int4 are 195 elements, 98 bytes a token: 3 ranks of 33 would hold 99.

    K and V of 5 tokens: 2 x 5 x 98 bytes over all ranks, whatever each holds.
    """
    spec = model(FullAttention(kv_heads=3, head_dim=65), heads=3)

    assert layout(spec, ctx=5, dtype="int4", tp=3).bytes == 2 * 5 * 98
