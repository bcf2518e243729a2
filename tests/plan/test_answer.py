"""The answer of `fit` with a device: true maxima, monotone in memory, and splits that exist."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.budget.vllm.ask import Asked
from kvplan.engines.request import Request
from kvplan.estimate import exactly
from kvplan.hardware.device import plain_device
from kvplan.hardware.sets import Devices, find_devices
from kvplan.load import LoadedModel, load_model
from kvplan.plan.answer import DOES_NOT_FIT, FITS, ONLY_IF, Answer, answer
from kvplan.plan.fit import fit
from kvplan.units import GIB

VERSION = "0.19.0"
MODELS = ("llama3.1-8b", "gemma-3-12b", "gpt-oss-20b", "qwen3-30b-a3b")


@cache
def model(name: str) -> LoadedModel:
    return load_model(name)


def with_memory(name: str, kv_bytes: int, ctx: int, batch: int = 1) -> Answer:
    """An answer where exactly so many bytes are left."""
    known = {name_: exactly(0, "given") for name_ in ("weights", "activations", "non_torch")}
    known["kv"] = exactly(kv_bytes, "given")
    device = plain_device(kv_bytes, "given")._replace(capability=(9, 0))
    return answer(
        model(name), Request(ctx=ctx, batch=batch), Devices(((device, 1),), False), VERSION,
        Asked(known=known),
    )  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(MODELS), kv=st.integers(1, 60), ctx=st.integers(64, 8192))
def test_the_inverses_are_true_maxima(name: str, kv: int, ctx: int) -> None:
    """What is named fits, and one more does not."""
    found = with_memory(name, kv * GIB // 2, ctx).low
    room, engine = kv * GIB // 2, f"vllm@{VERSION}"

    def fits(request: Request) -> bool:
        return fit(model(name), request, room, engine).fits

    batch, longest = found.max_batch_at_ctx, found.max_ctx_at_batch
    assert batch is not None
    assert longest is not None
    asked = found.request
    assert batch == 0 or fits(asked.replaced(batch=batch))
    assert not fits(asked.replaced(batch=batch + 1))
    assert longest == 0 or fits(asked.replaced(ctx=longest))
    if longest < (model(name).spec.max_context or 0):
        assert not fits(asked.replaced(ctx=longest + 1))


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(MODELS), first=st.integers(1, 40), more=st.integers(0, 40),
    ctx=st.integers(64, 8192),
)  # fmt: skip
def test_more_memory_never_holds_less(name: str, first: int, more: int, ctx: int) -> None:
    """Sequences and context grow with memory, and a verdict never turns worse."""
    less, plus = with_memory(name, first * GIB, ctx), with_memory(name, (first + more) * GIB, ctx)
    order = (DOES_NOT_FIT, ONLY_IF, FITS)

    assert (less.max_batch or 0) <= (plus.max_batch or 0)
    assert (less.low.max_ctx_at_batch or 0) <= (plus.low.max_ctx_at_batch or 0)
    assert order.index(less.verdict) <= order.index(plus.verdict)


@pytest.mark.parametrize("name", ["llama3.1-8b", "gpt-oss-20b", "llama3.1-70b", "deepseek-v3"])
def test_a_split_divides_the_heads(name: str) -> None:
    """No tensor ranks that the heads forbid; its devices are tp x pp."""
    found = answer(model(name), Request(ctx=4096), find_devices("h100"), VERSION, Asked()).ranks

    assert found is not None
    assert (model(name).spec.heads or 0) % found.tp == 0
    assert found.number == found.tp * found.pp
    assert found.tp % found.dcp == 0


def test_sequences_never_exceed_a_step() -> None:
    """256 sequences of 64 tokens would need little; max_num_seqs 8 ends them."""
    found = answer(
        model("llama3.1-8b"), Request(ctx=64, options={"max_num_seqs": "8"}),
        find_devices("h100"), VERSION, Asked(),
    )  # fmt: skip

    assert found.max_batch == 8
    assert found.binding_limit == "max_num_seqs"


def test_the_bound_of_a_step_is_bytes_over_bandwidth() -> None:
    """8,030,261,248 parameters of 2 bytes and 1 GiB of cache at 3,350 GB/s: 5.1 ms."""
    found = answer(
        model("llama3.1-8b"), Request(ctx=8192), find_devices("h100"), VERSION, Asked()
    ).decode

    assert found is not None
    assert found.kv_bytes == GIB
    assert found.milliseconds == pytest.approx((8_030_261_248 * 2 + GIB) / 3350e6, rel=0.01)
    # 131,072 bytes a token: 15 GiB of weights are as much as some 122,000 tokens.
    assert found.outweighs_at == pytest.approx(8_030_261_248 * 2 / 131_072, rel=0.01)
