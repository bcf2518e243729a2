"""Ollama: num_ctx and slots, its defaults by memory, its batch by length."""

from __future__ import annotations

import pytest

from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout
from kvplan.engines.llamacpp.ollama import batch_of
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import FullAttention

SPEC = ModelSpec(
    name="small",
    max_context=65_536,
    heads=2,
    vocab_size=1000,
    kinds={"full": (FullAttention(kv_heads=1, head_dim=64),)},
    layers=("full", "full"),
)


def laid_out(line: str = "", engine: str = "ollama", **fields: object) -> CacheLayout:
    found, version = find_engine(engine)
    request = Request(options=found.split_args(line), **fields)  # type: ignore[arg-type]
    return found.layout(SPEC, request, version)


def test_every_slot_has_num_ctx() -> None:
    """Two slots of 8,192 are a context of 16,384, divided."""
    layout = laid_out(ctx=8192, batch=2)

    assert (layout.extra.n_ctx, layout.extra.n_ctx_seq, layout.extra.streams) == (16384, 8192, 2)
    assert layout.bytes == 512 * 16_384


def test_settings_and_parameters() -> None:
    """The environment's and a Modelfile's, in one line."""
    line = "OLLAMA_NUM_PARALLEL=2 OLLAMA_KV_CACHE_TYPE=q8_0 num_ctx=8192 --num-batch 256"
    layout = laid_out(line)

    assert layout.bytes == 272 * 16_384
    assert layout.extra.n_ubatch == 256


@pytest.mark.parametrize(
    ("gpu", "ctx"),
    [("", 4096), ("gpu=rtx-3090", 32_768), ("gpu=rtx-3090:2", 65_536), ("gpu=rtx-4060", 4096)],
)
def test_num_ctx_by_memory(gpu: str, ctx: int) -> None:
    """32,768 from 23 GiB; 262,144 from 47 GiB, of which the model was trained for 65,536."""
    assert laid_out(gpu).extra.n_ctx == ctx


def test_overhead_is_taken_off() -> None:
    """24 GiB less 2 GiB are below 23."""
    assert laid_out(f"gpu=rtx-3090 OLLAMA_GPU_OVERHEAD={2 * 2**30}").extra.n_ctx == 4096


def test_num_batch_by_length() -> None:
    """Three steps; without flash attention the smallest."""
    assert [batch_of(n) for n in (4096, 4097, 32_768, 32_769)] == [512, 1024, 1024, 2048]
    assert batch_of(32_769, flash=False) == 512


def test_contradictions_and_older_releases() -> None:
    """Said, not resolved; releases that ran models themselves are not modelled."""
    for line, engine, fields in (
        ("num_ctx=8192", "ollama", {"ctx": 4096}),
        ("OLLAMA_NUM_PARALLEL=2", "ollama", {"batch": 3}),
        ("OLLAMA_KV_CACHE_TYPE=q8_0", "ollama", {"dtype": "q4_0"}),
        ("", "ollama@0.12.3", {}),
        ("num_thread", "ollama", {}),
        ("", "ollama", {"dtype_k": "q8_0"}),
    ):
        with pytest.raises(UsageError):
            laid_out(line, engine, **fields)
