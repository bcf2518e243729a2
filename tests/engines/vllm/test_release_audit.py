"""What an audit found wrong, kind by kind: rules by release, defaults, what a release has."""

from __future__ import annotations

import pytest

from kvplan.engines.layout import Plan
from kvplan.engines.request import Request
from kvplan.engines.transformers.engine import TransformersEngine
from kvplan.engines.vllm import VllmEngine
from kvplan.load import load_model
from tests.engines.vllm.models import GIB


def planned(
    name: str, version: str, available: int, ctx: int | None = None, **options: object
) -> Plan:
    """vLLM's plan for a catalogue model."""
    ranks = {key: int(str(options.pop(key, 1))) for key in ("tp", "pp")}
    texts = {key: str(value).lower() for key, value in options.items()}
    engine = VllmEngine()
    request = engine.settled(Request(ctx=ctx, **ranks, options=texts))
    spec = load_model(name).spec
    return engine.prepare(spec, request, version).capacity(available, request.ctx)


def code(plan: Plan) -> str | None:
    """The refusal's code."""
    return None if plan.refusal is None else plan.refusal.code


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
def test_sequences_are_held_against_the_blocks_of_states(version: str) -> None:
    """969 blocks of states: 1,024 sequences do not start; 969 do, and so does --enforce-eager."""
    memory = int(46.4 * GIB)
    if version == "0.33.0":
        memory = planned("qwen3.8-27b", version, 60 * GIB, 132000).bytes_per_block[0] * 969
    plan = planned("qwen3.8-27b", version, memory, 132000, gpu="h100")
    assert (code(plan), plan.max_num_seqs_that_starts) == ("mamba-blocks-below-max-num-seqs", 969)
    for options in ({"max_num_seqs": 969}, {"enforce_eager": True}):
        assert planned("qwen3.8-27b", version, memory, 132000, gpu="h100", **options).fits
    none = {"compilation_config": '{"cudagraph_mode": "none"}'}
    assert planned("qwen3.8-27b", version, memory, 132000, gpu="h100", **none).fits


def test_two_ranks_have_the_same_limit() -> None:
    """161 blocks and 256 sequences."""
    plan = planned("qwen3.8-27b", "0.23.0", int(3.86 * GIB), 122633, tp=2, max_num_seqs=256)
    assert (code(plan), plan.max_num_seqs_that_starts) == ("mamba-blocks-below-max-num-seqs", 161)


def test_0_14_to_0_16_check_the_whole_model_on_each_stage() -> None:
    """262,144 tokens x 98,304 bytes = 24 GiB, on each of two stages that hold half of it."""
    memory = int(3.18 * GIB)
    plan = planned("qwen3-30b-a3b-instruct-2507", "0.15.1", memory, 262144, pp=2)
    assert plan.needed_bytes_one_request == 24 * GIB
    assert plan.refusal is not None
    assert plan.refusal.figures["longest"] == memory // (16 * 98304) * 16
    half = planned("qwen3-30b-a3b-instruct-2507", "0.17.0", memory, 262144, pp=2)
    assert half.needed_bytes_one_request == 12 * GIB


def test_latents_were_padded_heads_before_0_7_1() -> None:
    """16 heads a rank x 256 elements x K and V x 2 bytes x 60 layers = 983,040 bytes a token."""
    plan = planned("deepseek-v2", "0.5.4", int(2.17 * GIB), 16000, tp=8)
    assert plan.bytes_per_block == (16 * 983040,)
    assert code(plan) == "kv-too-small"
    assert plan.refusal is not None
    assert plan.refusal.figures["longest"] // 16 * 16 == int(2.17 * GIB) // (16 * 983040) * 16


def test_windows_have_groups_since_0_9_1() -> None:
    """gemma-3-27b: 10 layers x 131,072 bytes a block."""
    plan = planned("gemma-3-27b", "0.9.1", 40 * GIB, 32768)
    assert plan.num_blocks == 32768
    assert round(plan.max_concurrency or 0, 2) == 5.95
    assert planned("gemma-3-27b", "0.9.0", 40 * GIB, 32768).num_blocks == 5285


def test_states_are_kept_once_where_a_release_switches_caching_off() -> None:
    """0.11.0 ignores --enable-prefix-caching for hybrids: one block a group."""
    plan = planned("qwen3-next-80b-a3b", "0.11.0", 40 * GIB, 32768, enable_prefix_caching=True)
    assert {group.request_blocks for group in plan.groups if group.kind == "state"} == {1}


@pytest.mark.parametrize(
    ("version", "gpu", "tokens"),
    [
        ("0.11.0", "b200", 8192), ("0.19.0", "b200", 8192), ("0.28.0", "b200", 16384),
        ("0.8.5", "a100", 8192), ("0.9.0", "a100", 2048), ("0.8.3", "a100", 2048),
    ],
)  # fmt: skip
def test_batched_tokens_by_release_and_gpu(version: str, gpu: str, tokens: int) -> None:
    """--max-num-batched-tokens of `vllm serve`."""
    plan = planned("llama3-8b", version, 40 * GIB, 4096, gpu=gpu)
    assert plan.extra.max_num_batched_tokens == tokens


@pytest.mark.parametrize(
    ("version", "gpu", "size"),
    [
        ("0.8.5", "h100", 64), ("0.9.1", "h100", 64), ("0.11.0", "h100", 64), ("0.9.2", "b200", 16),
        ("0.10.2", "b200", 128), ("0.11.0", "b200", 128), ("0.15.1", "b200", 64),
        ("0.20.0", "h100", 16), ("0.11.0", "a100", 16),
    ],
)  # fmt: skip
def test_blocks_of_latents_by_release_and_gpu(version: str, gpu: str, size: int) -> None:
    """DeepSeek-V2-Lite."""
    assert planned("deepseek-v2-lite", version, 40 * GIB, 4096, gpu=gpu).block_size == size


@pytest.mark.parametrize(
    ("name", "version", "options", "refused"),
    [
        ("llama2-7b", "0.2.4", {"kv_cache_dtype": "nvfp4"}, "kv-cache-dtype-unsupported"),
        ("llama2-7b", "0.4.0", {"kv_cache_dtype": "int8_per_token_head"},
         "kv-cache-dtype-unsupported"),
        ("gpt-oss-20b", "0.8.5", {}, "quantization-unsupported"),
        ("gemma-3-27b", "0.5.4", {}, "unsupported-architecture"),
        ("deepseek-v3", "0.5.4", {}, "unsupported-architecture"),
        ("jamba-v0.1", "0.6.3.post1", {}, None),
        ("bloom-7b1", "0.33.0", {"kv_cache_dtype": "fp8"}, "format-not-on-device"),
    ],
)  # fmt: skip
def test_what_a_release_has(
    name: str, version: str, options: dict[str, str], refused: str | None
) -> None:
    """Formats and classes by release; a format that ALiBi's kernels do not read."""
    assert code(planned(name, version, 70 * GIB, 2048, **options)) == refused


def test_unequal_heads_read_no_fp8_on_sm100() -> None:
    """MiMo-V2-Flash: K of 192, V of 128."""
    for gpu, refused in (("b200", "format-not-on-device"), ("h100", None)):
        plan = planned("mimo-v2-flash", "0.33.0", 100 * GIB, 4096, gpu=gpu, kv_cache_dtype="fp8")
        assert code(plan) == refused


def test_weights_that_a_release_refuses() -> None:
    """fbgemm_fp8 at 0.33."""
    spec = load_model("llama3.1-405b").spec.replaced(quant_method="fbgemm_fp8")
    plan = VllmEngine().prepare(spec, Request(tp=8), "0.33.0").capacity(40 * GIB, 4096)
    assert code(plan) == "quantization-unsupported"


def test_removed_classes_that_transformers_lends() -> None:
    """vLLM asks transformers before it refuses: Dots1 and Persimmon at 0.33, not MPT."""
    from kvplan.engines.vllm.facts.classes import class_named

    for name in (
        "Dots1ForCausalLM", "PersimmonForCausalLM", "ChameleonForConditionalGeneration",
        "AyaVisionForConditionalGeneration", "FuyuForCausalLM", "MllamaForConditionalGeneration",
    ):  # fmt: skip
        row = class_named(name)
        assert row is not None
        assert row.is_in("0.33.0")
        assert not row.is_own("0.33.0")
    row = class_named("MPTForCausalLM")
    assert row is not None
    assert not row.is_in("0.33.0")


def test_a_tensor_per_layer_before_0_20() -> None:
    """Llama 3 8B has 32 layers."""
    for version, tensors in (("0.6.3.post1", 32), ("0.19.0", 32), ("0.20.0", 1)):
        engine, spec = VllmEngine(), load_model("llama3-8b").spec
        layout = engine.prepare(spec, Request(), version).layout(4096, 1)
        assert len(layout.ranks[0].tensors) == tensors


@pytest.mark.parametrize(
    ("version", "how"),
    [
        ("0.28.0", "driven"), ("0.19.1", "driven"), ("0.25.1", "driven"), ("0.24.0", "read"),
        ("0.21.0", "nearest"), ("9.9.9", "nearest"),
    ],
)  # fmt: skip
def test_what_the_rules_rest_on(version: str, how: str) -> None:
    """A patch with the planning code of its release is worth as much; others are not known."""
    plan = planned("llama3-8b", version, 40 * GIB, 4096)
    assert plan.rules == how
    assert any(notice.id == "engine-version" for notice in plan.notices) == (how == "nearest")


def test_old_releases_are_cited_by_files_they_have() -> None:
    """0.8.5 has config.py alone, and no orders of a pool's dimensions."""
    engine, spec = VllmEngine(), load_model("llama3-8b").spec
    layout = engine.prepare(spec, Request(), "0.8.5").layout(4096, 1)
    origins = " ".join(note.origin for note in layout.provenance)
    assert "vllm 0.8.5 config.py" in origins
    assert "config/" not in origins
    assert "v1/attention/backends" not in origins


def test_falcon_40b_in_a_paged_cache() -> None:
    """transformers' paged cache finds 128 KV heads x 64 x K and V x 2 bytes x 60 layers."""
    request = Request(ctx=1000, options={"cache_implementation": "paged", "num_blocks": "8"})
    layout = TransformersEngine().prepare(
        load_model("falcon-40b").spec, request, "5.24.0"
    ).layout(1000, 1)  # fmt: skip
    assert layout.bytes == 5_033_164_800
