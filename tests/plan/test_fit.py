"""`fit`: the verdict, the figures beside it and the limit that binds agree with each other."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engines.request import Request
from kvplan.load import LoadedModel, load_model
from kvplan.plan.fit import Fit, fit
from kvplan.plan.size import size
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
    assert (found.max_ctx_at_batch, found.binding_limit) == (None, None)
    bound = asked(MIB, engine, model=fixed_state(8192), ctx=100)
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
