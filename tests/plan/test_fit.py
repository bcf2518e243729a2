"""`fit`: the verdict, the figures beside it and the limit that binds agree with each other."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel, load_model
from kvplan.plan.fit import Fit, fit
from kvplan.plan.size import size
from kvplan.report import as_table
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import Mamba1

GIB, MIB = 1 << 30, 1 << 20


def llama() -> LoadedModel:
    """32 layers of 8 KV heads of 128: 131,072 bytes a token, 2 MiB a block of 16."""
    return load_model("llama3.1-8b")


def asked(
    available: int, engine: str = "logical", *, model: LoadedModel | None = None, **request: Any
) -> Fit:
    return fit(model or llama(), Request(**request), available, engine)


def fixed_state(max_context: int | None = None) -> LoadedModel:
    """A state of 128 x 4 x 2 + 128 x 16 x 4 = 9,216 bytes in transformers."""
    spec = ModelSpec(
        name="mamba",
        dtype="bfloat16",
        max_context=max_context,
        kinds={"m": (Mamba1(intermediate_size=128, state_size=16, conv_kernel=4),)},
        layers=("m",),
    )
    return LoadedModel(spec, "mamba.yaml")


def test_what_has_to_fit_is_the_peak_of_the_whole_request() -> None:
    """GPT-OSS-20B after a prefill of 32,768: 24 layers x 32,768 x 2 x 8 x 64 x 2 = 1.5 GiB."""
    model = load_model("gpt-oss-20b")
    found = asked(GIB, "transformers", model=model, ctx=32768)
    assert found.needed_bytes == 24 * 32768 * 2048
    assert found.spare_bytes == -(GIB // 2)
    assert (found.fits, found.max_batch_at_ctx, found.min_devices) == (False, 0, 2)
    two = asked(GIB, "transformers", model=model, ctx=32768, batch=2)
    assert two.needed_bytes == 2 * 24 * 32768 * 2048


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm"])
@pytest.mark.parametrize("available", [100 * MIB, 512 * MIB, 514 * MIB, 4 * GIB])
def test_fits_is_what_the_figures_say(engine: str, available: int) -> None:
    """4,096 tokens are 512 MiB, and vLLM's null block is 2 MiB more."""
    found = asked(available, engine, ctx=4096)
    assert found.needed_bytes == (514 if engine == "vllm" else 512) * MIB
    assert found.fits == (found.needed_bytes <= available)
    assert found.fits == (found.max_batch_at_ctx >= 1) == (found.max_ctx_at_batch >= 4096)
    assert found.fits == (found.min_devices == 1)


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm"])
def test_no_context_is_above_the_models_maximum(engine: str) -> None:
    """131,072 tokens, however much memory there is."""
    found = asked(1 << 44, engine, ctx=4096)
    assert (found.max_ctx_at_batch, found.binding_limit) == (131072, "max_context")


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm"])
def test_a_fixed_state_has_no_longest_context(engine: str) -> None:
    """Nothing binds where no maximum is known; a known one does."""
    spec = fixed_state()
    found = asked(MIB, engine, model=spec, ctx=100)
    assert (found.max_ctx_at_batch, found.binding_limit) == (
        (None, "state_blocks") if engine == "vllm" else (None, None)
    )
    bound = asked(MIB << 12, engine, model=fixed_state(8192), ctx=100)
    assert (bound.max_ctx_at_batch, bound.binding_limit) == (8192, "max_context")


def test_what_binds() -> None:
    """Memory, the model, the engine's own length flag, or the engine as a whole."""
    assert asked(GIB, "vllm", ctx=4096).binding_limit == "available_bytes"
    assert asked(MIB, "vllm", ctx=4096).binding_limit == "available_bytes"
    flag = asked(10 * GIB, "vllm", ctx=4096, options={"max_model_len": "8192"})
    assert (flag.max_ctx_at_batch, flag.binding_limit) == (8192, "max_model_len")
    refused = asked(10 * GIB, "vllm", ctx=4096, tp=3)
    assert (refused.max_ctx_at_batch, refused.binding_limit) == (0, "engine")
    assert (refused.needed_bytes, refused.fits) == (None, False)


def test_an_engine_that_does_not_start_serves_nobody() -> None:
    """4,096 tokens are 514 MiB and there are 600, but the flag asks for 8,192: 1 GiB on 2 ranks."""
    options = {"max_model_len": "8192"}
    found = asked(600 * MIB, "vllm", ctx=4096, options=options)
    assert found.needed_bytes == 514 * MIB
    assert (found.fits, found.max_batch_at_ctx, found.max_ctx_at_batch) == (False, 0, 0)
    assert (found.binding_limit, found.min_devices) == ("available_bytes", 2)
    paged = {"cache_implementation": "paged", "max_memory_percent": "0.5"}
    sized = asked(GIB, "transformers", ctx=4096, options=paged)
    assert (sized.fits, sized.max_batch_at_ctx) == (False, 0)
    assert sized.min_devices is None or sized.min_devices > 1


def test_a_refused_cache_of_transformers_has_no_inverses() -> None:
    """Sliding layers are not quantised; a prefill is no obstacle to saying so."""
    options = {"cache_implementation": "quantized", "prefill": "300"}
    found = asked(GIB, "transformers", model=load_model("gpt-oss-20b"), ctx=400, options=options)
    assert (found.fits, found.max_batch_at_ctx, found.max_ctx_at_batch) == (False, 0, 0)
    assert found.binding_limit == "engine"


@pytest.mark.parametrize("engine", ["logical", "vllm"])
def test_the_warnings_are_those_of_size(engine: str) -> None:
    """Both hold the same request."""
    request = Request(ctx=200_000, dtype="fp8")
    sized = size(llama(), request=request, engine=engine)
    assert [w.id for w in sized.warnings] == ["ctx-above-maximum"]
    assert fit(llama(), request, GIB, engine).warnings == sized.warnings


def test_ranks_without_an_engine_are_a_warning() -> None:
    """The logical figure is of the whole model, whatever the ranks."""
    (warning,) = asked(GIB, ctx=4096, tp=4, dp=2).warnings
    assert warning.id == "unsharded"
    assert "--tp 4 --dp 2 changes nothing" in warning.message
    assert size(llama(), request=Request(ctx=4096, tp=4)).warnings[0].id == "unsharded"
    assert asked(GIB, "vllm", ctx=4096, tp=4).warnings == ()


def test_a_format_of_the_engine_alone_is_taken() -> None:
    """turboquant_k8v4 is vLLM's; the logical figure beside it stays in bfloat16, and says so."""
    found = asked(10 * GIB, "vllm", ctx=4096, dtype="turboquant_k8v4")
    assert found.logical.dtypes.name == "bfloat16"
    assert [w.id for w in found.warnings] == ["engine-format"]
    same = asked(10 * GIB, "vllm", ctx=4096, options={"kv_cache_dtype": "turboquant_k8v4"})
    assert found.needed_bytes == same.needed_bytes
    assert same.warnings == found.warnings


def test_sizes_that_an_engine_does_not_split_are_no_number_of_devices() -> None:
    """32 heads divide by 16, 8 KV heads do not; recurrent layers are not split at all."""
    found = asked(10 * MIB, "transformers", ctx=8192)
    assert (found.fits, found.max_ctx_at_batch, found.min_devices) == (False, 80, None)
    hybrid = load_model("qwen3-next-80b-a3b")
    assert asked(4 * GIB, "transformers", model=hybrid).min_devices is None
    assert asked(8 * GIB, "transformers", model=hybrid).min_devices == 1
    with pytest.raises(UsageError, match="cannot split 8 key/value heads over 16 ranks"):
        asked(10 * MIB, "transformers", ctx=8192, tp=16)


@pytest.mark.parametrize("engine", ["logical", "transformers"])
def test_who_asks_for_more_than_the_maximum_is_answered_up_to_that(engine: str) -> None:
    """llama3-8b: 8,192 tokens; 32,768 of 131,072 bytes are 4 GiB."""
    model = load_model("llama3-8b")
    found = asked(40 * GIB, engine, model=model, ctx=32768)
    assert (found.fits, found.max_ctx_at_batch, found.binding_limit) == (True, 32768, "max_context")
    less = asked(3 * GIB, engine, model=model, ctx=32768)
    assert (less.fits, less.max_ctx_at_batch) == (False, 24576)
    assert less.binding_limit == "available_bytes"
    refused = asked(40 * GIB, "vllm", model=model, ctx=32768)
    assert (refused.fits, refused.max_ctx_at_batch) == (False, 8192)
    assert refused.binding_limit == "max_context"


def test_a_length_that_the_engine_scales_is_no_contradiction() -> None:
    """InternLM 2.5: 32,768 tokens times a dynamic rope factor of 2."""
    found = asked(40 * GIB, "vllm", model=load_model("internlm2.5-7b-chat"))
    assert (found.fits, found.max_batch_at_ctx, found.max_ctx_at_batch) == (True, 4, 65536)


def test_the_engines_own_memory_replaces_the_given_one() -> None:
    """4,096 tokens are 256 blocks of 2 MiB and the null block, 128 blocks on each of 2 ranks."""
    options = {"kv_cache_memory_bytes": str(GIB)}
    found = asked(1, "vllm", ctx=4096, options=options)
    assert (found.available_bytes, found.fits, found.max_batch_at_ctx) == (GIB, True, 1)
    assert [w.id for w in found.warnings] == ["memory-by-flag"]
    assert f"{GIB:,} bytes a rank" in found.warnings[0].message
    assert asked(GIB, "vllm", ctx=4096, options=options).warnings == ()

    pool = asked(40 * GIB, "vllm", ctx=4096, options={"num_gpu_blocks_override": "515"})
    assert (pool.available_bytes, pool.fits, pool.max_batch_at_ctx) == (515 * 2 * MIB, True, 2)
    assert (pool.max_ctx_at_batch, pool.spare_bytes) == (514 * 16, (515 - 257) * 2 * MIB)
    small = asked(40 * GIB, "vllm", ctx=4096, options={"num_gpu_blocks_override": "10"})
    assert (small.available_bytes, small.fits) == (20 * MIB, False)
    assert (small.max_batch_at_ctx, small.max_ctx_at_batch, small.min_devices) == (0, 144, None)


def test_devices_are_those_of_all_ranks() -> None:
    """4,096 tokens are 514 MiB: on 2 stages 257 each, on 2 replicas twice the devices."""
    assert asked(300 * MIB, "vllm", ctx=4096).min_devices == 2
    assert asked(300 * MIB, "vllm", ctx=4096, pp=2).min_devices == 2
    assert asked(300 * MIB, "vllm", ctx=4096, dp=2).min_devices == 4
    assert asked(300 * MIB, "vllm", ctx=4096, dp=2, pp=2).min_devices == 4


def test_states_without_heads_are_split_too() -> None:
    """falcon-mamba-7b has no heads; a byte less than it needs makes it two ranks."""
    model = load_model("falcon-mamba-7b")
    one = asked(GIB, "vllm", model=model, ctx=4096)
    assert (one.model.spec.heads, one.min_devices) == (None, 1)
    assert one.needed_bytes is not None
    assert asked(one.needed_bytes - 1, "vllm", model=model, ctx=4096).min_devices == 2


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm"])
def test_what_keeps_nothing_has_no_bounds(engine: str) -> None:
    """Any batch, any context, one device."""
    spec = ModelSpec(name="none", dtype="bfloat16", kinds={"e": ()}, layers=("e",))
    found = asked(MIB, engine, model=LoadedModel(spec, "none.yaml"), ctx=10)
    assert (found.fits, found.needed_bytes) == (True, 0)
    assert (found.max_batch_at_ctx, found.max_ctx_at_batch, found.min_devices) == (None, None, 1)


def test_a_version_that_forgets_its_null_block_says_so() -> None:
    """0.25: 512 MiB are 256 blocks, which 4,096 tokens take, and one of them is the null block."""
    found = asked(512 * MIB, "vllm@0.25.0", ctx=4096)
    assert found.plan is not None
    assert (found.fits, found.plan.figures["fits"], found.max_ctx_at_batch) == (False, True, 4080)
    assert found.plan.reasons[-1] == (
        "it starts all the same, because the start-up check leaves out the null block: a request of"
        " 4,096 tokens takes 256 blocks, and 255 of the pool's 256 can serve it"
    )
    enough = asked(514 * MIB, "vllm@0.25.0", ctx=4096)
    assert enough.plan is not None
    assert enough.fits
    assert not any("null block" in reason for reason in enough.plan.reasons)


def test_a_pool_of_a_number_of_blocks() -> None:
    """transformers: blocks of 256 tokens are 32 MiB and a sector, two more are for padding."""
    paged = {"cache_implementation": "paged", "num_blocks": "10"}
    small = asked(GIB, "transformers", ctx=4096, options=paged)
    assert (small.fits, small.max_batch_at_ctx, small.max_ctx_at_batch) == (False, 0, 2560)
    assert small.plan is not None
    assert small.plan.reasons[-1] == "num_blocks 10 are 10 sectors, the request takes 16"
    larger = asked(GIB, "transformers", ctx=4096, options={**paged, "num_blocks": "31"})
    assert larger.needed_bytes == 33 * 32 * MIB
    assert (larger.fits, larger.max_batch_at_ctx, larger.max_ctx_at_batch) == (False, 0, 0)
    both = asked(GIB, "transformers", ctx=4096, options={**paged, "num_blocks": "30"})
    assert (both.fits, both.needed_bytes, both.max_ctx_at_batch) == (True, GIB, 30 * 256)


@pytest.mark.parametrize("engine", ["logical", "transformers", "vllm", "vllm@0.25.0"])
def test_the_page_of_what_has_no_maximum(engine: str) -> None:
    """It is printed whatever binds."""
    for available in (0, 1, MIB, GIB):
        for model in (fixed_state(), load_model("falcon-mamba-7b")):
            page = as_table.fit(asked(available, engine, model=model, ctx=10), to_file=True)
            assert page.splitlines()[2] in ("fits", "does not fit")
