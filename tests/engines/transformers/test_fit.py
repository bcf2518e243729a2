"""What fits, and that one more does not."""

from __future__ import annotations

import pytest

from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import Mamba1
from kvplan.spec.states import CompressedLatent, FullAttention, Indexer, SlidingAttention
from tests.engines.transformers.replay import specs

ENGINE = TransformersEngine()

MODELS = {
    "full": (FullAttention(kv_heads=8, head_dim=128),),
    "sliding": (SlidingAttention(window=512, kv_heads=8, head_dim=128),),
    "v4": (CompressedLatent(head_dim=512, window=128, ratio=128),),
    "v4-csa": (
        CompressedLatent(head_dim=512, window=128, ratio=4),
        Indexer(head_dim=128, ratio=4),
    ),
}
OPTIONS = {
    "prefill": {},
    "decode": {"prefill": "300"},
    "static": {"cache_implementation": "static"},
    "quantized": {"cache_implementation": "quantized", "prefill": "300"},
}
# Quantised caches are for full attention alone; DeepSeek V4 has no static layers.
WAYS = [
    (kind, way)
    for kind in MODELS
    for way in OPTIONS
    if not (way == "quantized" and kind != "full") and not (way == "static" and "v4" in kind)
]


def model(kind: str) -> ModelSpec:
    return ModelSpec(
        name=kind,
        dtype="bfloat16",
        kinds={kind: MODELS[kind]},
        layers=(kind,) * 4,
    )


@pytest.mark.parametrize(("kind", "way"), WAYS)
@pytest.mark.parametrize("available", [10_000_000, 33_333_333])
def test_the_largest_context_fits_and_the_next_does_not(
    kind: str, way: str, available: int
) -> None:
    """max_ctx_at_batch is exact, also through the saw teeth of residuals and buffers."""
    spec, options = model(kind), OPTIONS[way]
    found = ENGINE.fit(spec, Request(ctx=400, options=options), "", available).figures
    tokens = found["max_ctx_at_batch"]

    if tokens is None:  # a window that is never prefilled as a whole costs no more and no more
        assert kind == "sliding"
        return
    at = ENGINE.fit(spec, Request(ctx=tokens, options=options), "", available).figures
    above = ENGINE.fit(spec, Request(ctx=tokens + 1, options=options), "", available).figures
    assert at["fits"]
    assert not above["fits"]


@pytest.mark.parametrize("available", [0, 1_000_000, 123_456_789])
def test_the_largest_batch_fits_and_the_next_does_not(available: int) -> None:
    """max_batch_at_ctx is exact, 0 when not even one sequence fits."""
    spec = model("full")
    batches = ENGINE.fit(spec, Request(ctx=700), "", available).figures["max_batch_at_ctx"]
    one = 700 * 4 * 8 * 256 * 2

    assert batches == available // one
    assert ENGINE.fit(spec, Request(ctx=700), "", available).figures["fits"] == (batches >= 1)


def test_the_peak_of_a_sliding_model_is_its_prefill() -> None:
    """What must fit is the whole prompt, not the window."""
    figures = ENGINE.fit(model("sliding"), Request(ctx=10_000), "", 1 << 40).figures

    assert figures["needed_bytes_one_request"] == 10_000 * 4 * 8 * 256 * 2


def test_a_model_of_fixed_states_has_no_longest_context() -> None:
    """Nothing grows with the tokens."""
    spec = ModelSpec(
        name="mamba",
        dtype="bfloat16",
        kinds={"m": (Mamba1(intermediate_size=128, state_size=16, conv_kernel=4),)},
        layers=("m",),
    )
    figures = ENGINE.fit(spec, Request(ctx=10), "", 1 << 20).figures

    assert figures["max_ctx_at_batch"] is None
    assert figures["max_batch_at_ctx"] == (1 << 20) // (128 * 4 * 2 + 128 * 16 * 4)


@pytest.mark.parametrize("name", ["deepseek-v3", "gemma3-1b", "qwen3-next-80b", "zamba2-2.7b"])
def test_bytes_never_fall_with_tokens_or_batch(name: str) -> None:
    """Monotone in both, for every kind of layer."""
    spec = specs()[name]
    sizes = [ENGINE.layout(spec, Request(ctx=ctx)).bytes for ctx in (1, 2, 3, 511, 512, 513, 5000)]

    assert sizes == sorted(sizes)
    assert ENGINE.layout(spec, Request(ctx=513, batch=3)).bytes == 3 * sizes[5]
