"""An engine's own flags for length, ranks and format are part of the request that is answered."""

from __future__ import annotations

import pytest

from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel, load_model
from kvplan.plan.fit import fit
from kvplan.plan.size import size
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FullAttention

GIB = 1 << 30


def llama() -> LoadedModel:
    """32 layers of 8 KV heads of 128: 131,072 bytes a token, 2 MiB a block of 16."""
    return load_model("llama3.1-8b")


def test_size_counts_what_the_engines_flags_ask_for() -> None:
    """8,192 tokens in fp8 on 2 ranks: 512 blocks and one, of 512 KiB each."""
    options = {"max_model_len": "8192", "tensor_parallel_size": "2", "kv_cache_dtype": "fp8"}
    found = size(llama(), engine="vllm", request=Request(options=options))
    assert found.logical.bytes == 8192 * 65_536
    assert found.request.ctx == 8192
    assert found.allocated is not None
    assert [rank.bytes for rank in found.allocated.ranks] == [513 * 524_288] * 2


def test_fit_searches_below_the_engines_length() -> None:
    """10 GiB are 5,120 blocks: 9 requests of 512 blocks beside the null block, none above 8,192."""
    request = Request(ctx=4096, options={"max_model_len": "8192"})
    found = fit(llama(), request, 10 * GIB, "vllm")
    assert found.max_ctx_at_batch == 8192
    assert found.max_batch_at_ctx == 5119 // 256
    own = fit(llama(), Request(options={"max_model_len": "8192"}), 10 * GIB, "vllm")
    assert own.request.ctx == 8192
    assert own.max_batch_at_ctx == 5119 // 512


def test_fit_takes_the_length_that_the_engine_settles() -> None:
    """`--max-model-len -1` in 1 GiB: 511 usable blocks of 16 tokens."""
    found = fit(llama(), Request(options={"max_model_len": "-1"}), GIB, "vllm")
    assert found.fits
    assert found.request.ctx == found.max_ctx_at_batch == 511 * 16
    short = fit(load_model("phi-3-mini-128k"), Request(), 40 * GIB, "vllm")
    assert short.request.ctx == 4096  # LongRoPE models start at their original length


def test_a_config_without_a_format_runs_in_the_one_the_engine_settles() -> None:
    """vLLM takes such a config for float32 and runs it in 16 bit; the logical figure follows."""
    spec = ModelSpec(
        name="x", max_context=4096, layers=("a",),
        kinds={"a": (FullAttention(kv_heads=8, head_dim=128),)},
        heads=32, model_type="llama", architecture="LlamaForCausalLM",
    )  # fmt: skip
    result = size(spec, engine="vllm")

    assert result.logical.dtypes.k.name == "bfloat16"
    assert result.logical.bytes == 4096 * 2 * 8 * 128 * 2
    with pytest.raises(UsageError, match="does not say which format"):
        size(spec)
