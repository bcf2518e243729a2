"""QuantizedCache: bytes per element, the residual, and what is refused."""

from __future__ import annotations

import pytest

from kvplan.engines.request import Request
from kvplan.engines.transformers import TransformersEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FullAttention, SlidingAttention

ENGINE = TransformersEngine()
LLAMA = ModelSpec(
    name="llama",
    dtype="bfloat16",
    heads=32,
    kinds={"full": (FullAttention(kv_heads=8, head_dim=128),)},
    layers=("full",) * 32,
)
ELEMENTS = 32 * 8 * (128 + 128)  # per token


def request(ctx: int, prefill: int | None = None, **options: object) -> Request:
    given = {"cache_implementation": "quantized", **{k: str(v) for k, v in options.items()}}
    if prefill is not None:
        given["prefill"] = str(prefill)
    return Request(ctx=ctx, options=given)


@pytest.mark.parametrize(
    ("backend", "nbits", "bytes_per_64"),
    [
        ("quanto", 4, 32 + 2 + 2),
        ("quanto", 2, 16 + 2 + 2),
        ("hqq", 8, 64 + 2 + 2),
        ("hqq", 4, 32 + 2 + 2),
        ("hqq", 3, 7 * 4 + 2 + 2),  # 10 values per int32: ceil(64 / 10) words
        ("hqq", 2, 16 + 2 + 2),
        ("hqq", 1, 8 + 2 + 2),
    ],
)
def test_a_group_of_64_with_its_scale_and_zero(backend: str, nbits: int, bytes_per_64: int) -> None:
    """Packed values, one scale and one zero in 16 bits per group."""
    layout = ENGINE.layout(LLAMA, request(1024, backend=backend, nbits=nbits))

    assert layout.bytes == 1024 * ELEMENTS // 64 * bytes_per_64


def test_fp8_has_one_scale_per_tensor_and_no_residual() -> None:
    """One byte per element and 4 for each of K and V of a layer."""
    layout = ENGINE.layout(LLAMA, request(1000, prefill=900, backend="fp8"))

    assert layout.bytes == 1000 * ELEMENTS + 32 * 2 * 4


def test_the_residual_is_flushed_when_it_would_fill() -> None:
    """After 130 steps 128 tokens joined the quantised ones and 2 wait in bfloat16."""
    before = ENGINE.layout(LLAMA, request(1024 + 127, prefill=1024))
    after = ENGINE.layout(LLAMA, request(1024 + 130, prefill=1024))

    assert before.bytes == 1024 * ELEMENTS * 36 // 64 + 127 * ELEMENTS * 2
    assert after.bytes == (1024 + 128) * ELEMENTS * 36 // 64 + 2 * ELEMENTS * 2


def test_groups_that_do_not_come_out_even_are_refused() -> None:
    """1,000 tokens x 8 heads is no multiple of 64 along the last axis with an odd count."""
    layout = ENGINE.layout(LLAMA, request(1001, axis_key=-1))

    assert layout.refusal is not None
    assert layout.refusal.code == "quantization-groups"
    assert layout.refusal.figures == {"elements": 8008, "q_group_size": 64}
    assert layout.ranks == ()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"backend": "awq"}, "quantization-unknown", "there are quanto, hqq, fp8"),
        ({"nbits": 8}, "quantization-option", "quanto does not take nbits 8; it takes 2, 4"),
        ({"backend": "fp8", "nbits": 8}, "quantization-option", "leave out nbits"),
    ],
)
def test_arguments_that_a_backend_does_not_take(
    options: dict[str, object], code: str, words: str
) -> None:
    """A code, and a sentence that says what it takes."""
    refusal = ENGINE.layout(LLAMA, request(64, **options)).refusal
    assert refusal is not None
    assert (refusal.code, refusal.exception) == (code, "ValueError")
    assert words in refusal.message


def test_4_57_has_no_fp8_and_does_not_look_at_the_layers() -> None:
    """Windows are quantised in full there; the backend is unknown."""
    sliding = ModelSpec(
        name="sliding",
        dtype="bfloat16",
        kinds={"s": (SlidingAttention(window=16, kv_heads=1, head_dim=64),)},
        layers=("s",),
    )
    fp8 = ENGINE.layout(LLAMA, request(64, backend="fp8"), "4.57.6")
    layout = ENGINE.layout(sliding, request(64), "4.57.6")

    assert fp8.refusal is not None
    assert fp8.refusal.code == "quantization-unknown"
    assert fp8.refusal.figures["known"] == ["quanto", "hqq"]
    assert layout.bytes == 64 * (64 + 64) // 64 * 36
