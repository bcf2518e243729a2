"""llama.cpp's options, slots, devices and host memory; LM Studio; versions and refusals."""

from __future__ import annotations

import json

import pytest

from kvplan.cli import main
from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout, Plan
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import load_model
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet
from kvplan.spec.states import FullAttention, LatentAttention, SlidingAttention

MIB = 2**20


def model(**changes: object) -> ModelSpec:
    """Two layers of one KV head of 64: 512 bytes a token in f16, 272 in q8_0."""
    facts: dict[str, object] = {
        "name": "small",
        "max_context": 4096,
        "heads": 2,
        "vocab_size": 1000,
        "kinds": {"full": (FullAttention(kv_heads=1, head_dim=64),)},
        "layers": ("full", "full"),
    }
    return ModelSpec(**(facts | changes))  # type: ignore[arg-type]


def laid_out(
    spec: ModelSpec | None = None, line: str = "", engine: str = "llamacpp", **fields: object
) -> CacheLayout:
    found, version = find_engine(engine)
    request = Request(options=found.split_args(line), **fields)  # type: ignore[arg-type]
    return found.layout(spec or model(), request, version)


def code(plan: Plan) -> str:
    assert plan.refusal is not None
    return plan.refusal.code


@pytest.mark.parametrize(
    ("ctx", "slots", "cells", "streams"),
    [
        (10_000, 3, 3584, 3),  # 10,240 // 3 = 3,413, which 256 divides into 14 pieces: 3,584
        (1000, 64, 256, 64),
        (4096, 4, 1024, 4),
        (1, 1, 256, 1),
    ],
)
def test_slots_divide_the_context(ctx: int, slots: int, cells: int, streams: int) -> None:
    """Each slot's cells are rounded up to 256, so all slots may have more than was asked for."""
    layout = laid_out(ctx=ctx, batch=slots)

    assert (layout.extra.n_ctx_seq, layout.extra.streams) == (cells, streams)
    assert layout.extra.n_ctx == cells * streams
    assert layout.bytes == 512 * cells * streams


def test_without_np_four_slots_share_one_cache() -> None:
    """llama-server's own default, written -np -1; the context is not divided."""
    layout = laid_out(line="-c 4096 -np -1")

    assert (layout.extra.n_seq_max, layout.extra.kv_unified) == (4, True)
    assert (layout.extra.n_ctx_seq, layout.extra.streams, layout.bytes) == (4096, 1, 512 * 4096)


@pytest.mark.parametrize("name", ["llama.cpp", "LLAMA-SERVER", "llamacpp@b11434", "llama-cpp"])
def test_names_of_the_engine(name: str) -> None:
    """All of them are llamacpp, of the build that was followed."""
    assert find_engine(name)[0].name == "llamacpp"
    assert find_engine(name)[1] == "b11434"


def test_a_whole_line_of_flags() -> None:
    """Ports, samplers and threads are passed over; -fa alone is an older build's switch."""
    line = "--host 0.0.0.0 --port 8080 -t 8 -fa -ctk q8_0 -ctv q8_0 -ub 256 -ngl 99 --jinja -c 4096"
    layout = laid_out(line=line)

    assert layout.bytes == 272 * 4096
    assert (layout.extra.n_ubatch, layout.extra.type_v) == (256, "q8_0")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--ctx-sizes 4096", "did you mean --ctx-size"),
        ("-m other.gguf", "name the model"),
        ("-ctk fp8", "not a format of llama.cpp's cache"),
        ("-sm row", "not modelled"),
        ("-ts 0,0", "no device a share"),
        ("-np 0", "cannot be '0'"),
        ("--spec-type draft-eagle3", "a model of its own"),
        ("-b 0 -ub 0", "cannot both be 0"),
        ("--override-kv a=int:1", "not modelled"),
        ("LLAMA_ARG_CTX_SIZE=4096", "not modelled"),
        ("-ngl many", "cannot be 'many'"),
    ],
)
def test_what_is_not_understood_is_said(line: str, words: str) -> None:
    """One sentence, and what to write instead."""
    with pytest.raises(UsageError) as caught:
        laid_out(line=line, ctx=4096)

    assert words in f"{caught.value} {caught.value.hint or ''}"


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("-c 4096", {"ctx": 8192}),
        ("-np 2", {"batch": 3}),
        ("-ctk q8_0", {"dtype": "q4_0"}),
        ("", {"tp": 2}),
    ],
)
def test_flags_that_contradict_the_request(line: str, fields: dict[str, object]) -> None:
    """Neither wins."""
    with pytest.raises(UsageError):
        laid_out(line=line, **fields)


def test_refusals_by_code() -> None:
    """Packed V without flash attention, blocks of 32 that do not divide 80, too many sequences."""
    odd = model(kinds={"full": (FullAttention(kv_heads=1, head_dim=80),)})
    latent = model(kinds={"full": (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),)})

    assert code(laid_out(line="-fa off -ctv q8_0")) == "quantised-v-without-flash-attention"
    assert code(laid_out(odd, dtype="q8_0")) == "block-does-not-divide-head"
    assert code(laid_out(odd, line="-fa off -ctk q8_0")) == "block-does-not-divide-row"
    assert code(laid_out(latent, line="-ctk q8_0")) == "k-and-v-types-differ"
    assert code(laid_out(ctx=4096, batch=257)) == "too-many-sequences"
    assert code(laid_out(ctx=2, batch=3)) == "outputs-above-maximum"


def test_windows_and_their_checkpoints() -> None:
    """pad(min(4,096, 300 + 512)) = 1,024 cells; a checkpoint holds the window alone, 300."""
    spec = model(
        kinds={
            "full": (FullAttention(kv_heads=1, head_dim=64),),
            "sliding": (SlidingAttention(kv_heads=1, head_dim=64, window=300),),
        },
        layers=("sliding", "full"),
    )
    layout = laid_out(spec, ctx=8192, batch=2)
    names = {cache.name: cache.cells for cache in layout.extra.caches}

    assert names == {"kv_swa": 1024, "kv_base": 4096}
    assert layout.extra.host.checkpoint_bytes == 256 * 300
    assert layout.extra.host.checkpoints == 64
    assert laid_out(spec, line="--swa-full", ctx=8192).bytes == 512 * 8192
    assert laid_out(spec, line="-ctxcp 0", ctx=8192).extra.host.checkpoints_bytes == 0


def test_states_of_a_hybrid_with_drafts() -> None:
    """Qwen3.6 27B: 149.63 MiB a slot in float32, 4 times with 3 draft tokens, 18.7 GiB to keep."""
    spec = load_model("qwen3.6-27b").spec
    plain = laid_out(spec, ctx=16_384, batch=4)
    drafting = laid_out(spec, line="--spec-type draft-mtp", ctx=16_384, batch=4)
    states = {cache.name: cache.bytes for cache in plain.extra.caches}["rs"]
    more = {cache.name: cache.bytes for cache in drafting.extra.caches}

    assert states == 4 * 156_893_184  # 48 layers x 4 bytes x (3 x 10,240 + 128 x 128 x 48)
    assert more["rs"] == 4 * states
    assert more["draft_kv"] == 64 * MIB  # one layer of 4 heads of 256, 16,384 cells
    assert plain.extra.host.checkpoints_bytes == 128 * 156_893_184
    assert [notice.id for notice in plain.notices] == ["host-checkpoints"]


def test_layers_on_devices() -> None:
    """Three of five slots (four layers and the output) on the card: two layers stay on the host."""
    spec = model(layers=("full",) * 4)
    layout = laid_out(spec, line="-ngl 3", ctx=4096)
    row = 256 * 4096

    assert [rank.bytes for rank in layout.ranks] == [2 * row, 2 * row]
    assert (layout.extra.devices, layout.extra.host_cache_bytes) == ((2 * row,), 2 * row)
    assert layout.peak_bytes == 2 * row
    assert laid_out(spec, line="-nkvo", ctx=4096).extra.host_cache_bytes == 4 * row
    assert laid_out(spec, line="-ts 3,1", ctx=4096).extra.devices == (4 * row, 0)
    assert laid_out(spec, line="-ts 1,1", ctx=4096).extra.devices == (3 * row, row)


def test_older_builds() -> None:
    """Before windows every layer kept all; a latent's V was stored; the answer says which build."""
    sliding = model(kinds={"full": (SlidingAttention(kv_heads=1, head_dim=64, window=300),)})
    latent = model(kinds={"full": (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),)})

    assert laid_out(sliding, engine="llamacpp@b5000", ctx=4096).bytes == 512 * 4096
    assert laid_out(sliding, ctx=4096).bytes == 512 * 1024
    assert laid_out(latent, engine="llamacpp@b6173", ctx=4096).bytes == 2 * 4096 * 2 * (576 + 512)
    assert laid_out(latent, ctx=4096).bytes == 2 * 4096 * 2 * 576
    plain = laid_out(line="-fa off", engine="llamacpp@b4000", ctx=33)
    assert plain.extra.n_ctx == 64
    assert laid_out(engine="llamacpp@b12000", ctx=4096).notices[0].id == "engine-version"
    assert laid_out(engine="lmstudio", ctx=4096).engine == "lmstudio"


def test_grok_has_no_flash_attention() -> None:
    """Switched off whatever was asked for: V is as wide as the widest layer, and not packed."""
    grok = model(model_type="grok")

    assert not laid_out(grok, line="-fa on", ctx=4096).extra.flash_attention
    assert code(laid_out(grok, dtype="q8_0")) == "quantised-v-without-flash-attention"


def test_fit_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen3 4B in q8_0 is 78,336 bytes a cell: 1 GiB holds 53 steps of 256, 13,568 cells."""
    args = ["fit", "qwen3-4b", "--engine", "llamacpp", "--available-memory", "1GiB"]
    assert main([*args, "--ctx", "16384", "--dtype", "q8_0", "--json"]) == 1

    found = json.loads(capsys.readouterr().out)
    assert found["needed_bytes"] == 16_384 * 78_336
    assert found["max_ctx_at_batch"] == 2**30 // (78_336 * 256) * 256 == 13_568


def test_a_state_without_tokens_fits_any_length() -> None:
    """Nothing grows with the length: no bound."""
    state = GatedDeltaNet(k_heads=2, v_heads=2, k_head_dim=16, v_head_dim=16, conv_kernel=4)
    spec = model(kinds={"full": (state,)})
    engine, version = find_engine("llamacpp")
    plan = engine.fit(spec, Request(ctx=4096), version, 10**6)

    assert plan.fits
    assert plan.max_ctx_at_batch is None
