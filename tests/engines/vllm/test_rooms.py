"""The steps one by one: blocks of a request, stages, dealing, packing, formats, block sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engines.vllm.facts.dtype import CacheDType
from kvplan.engines.vllm.facts.gpus import batch_defaults, find_gpu
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.engines.vllm.layers.parallel import stage_sizes
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import CacheSpec, FullSpec, Load, SlidingSpec
from kvplan.engines.vllm.pool.capacity import Pool, longest_request
from kvplan.engines.vllm.pool.group import Group, deal
from kvplan.engines.vllm.pool.packed import least_padding
from kvplan.errors import UsageError
from tests.engines.vllm.models import DEEPSEEK_V3, GEMMA_3_27B, LLAMA, size

RULES, _ = rules_of("0.33.0")


def spec_of(kind: type[CacheSpec] = FullSpec, **changes: object) -> CacheSpec:
    values: dict[str, object] = {
        "block_size": 16, "row_bytes": 4096, "identity": (), **changes
    }  # fmt: skip
    return kind(**values)  # type: ignore[arg-type]


def load(length: int, batched: int = 8192, batches: int = 2) -> Load:
    return Load(length=length, in_flight=batched * batches, batched=batched, dcp=1, states="align")


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [
        (61, 2, (31, 30)),
        (61, 4, (15, 15, 16, 15)),
        (61, 8, (7, 7, 8, 8, 8, 8, 8, 7)),
        (32, 3, (11, 11, 10)),
        (32, 5, (6, 6, 7, 7, 6)),
        (80, 1, (80,)),
    ],
)
def test_layers_left_over_go_before_the_last_stage(
    layers: int, stages: int, sizes: tuple[int, ...]
) -> None:
    """Counting back from the last but one."""
    assert stage_sizes(layers, stages, None) == sizes


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    number=st.integers(1, 9),
)
def test_dealing_is_layer_i_to_group_i_modulo_number(counts: list[int], number: int) -> None:
    """The closed form against dealing the layers out one by one."""
    parts = deal([Run(spec_of(), tuple(counts))], number)
    stages = [stage for stage, count in enumerate(counts) for _ in range(count)]
    for index, part in enumerate(parts):
        mine = stages[index::number]
        expected = tuple(mine.count(stage) for stage in range(len(counts)))
        got = part[0].counts if part else (0,) * len(counts)
        assert got == expected


@given(values=st.lists(st.integers(1, 60), min_size=1, max_size=5), least=st.integers(1, 60))
def test_the_repeats_of_a_packed_group_pad_least(values: list[int], least: int) -> None:
    """No other number in the range pads less, and equal ones are smaller."""
    best = least_padding(values, least)
    if least > max(values):
        assert best == least
        return

    def padding(number: int) -> int:
        return sum(-(-value // number) * number - value for value in values)

    for other in range(least, max(values) + 1):
        assert padding(best) < padding(other) or (padding(best) == padding(other) and best >= other)


@given(
    window=st.integers(1, 5000),
    usable=st.integers(0, 10**9),
    length=st.integers(1, 200000),
    batched=st.sampled_from([512, 2048, 8192]),
)
def test_the_longest_request_fits_and_one_token_more_does_not(
    window: int, usable: int, length: int, batched: int
) -> None:
    """The inverse of a request's bytes, exact to the token."""
    groups = (
        Group((Run(spec_of(), (4,)),)),
        Group((Run(spec_of(SlidingSpec, window=window), (4,)),)),
    )
    pool = Pool(groups, "LBNHC", 1, RULES)
    longest = longest_request(pool, load(length, batched), 0, usable)
    if longest:
        assert pool.request_bytes(load(longest, batched), 0) <= usable
    if longest < length:
        assert pool.request_bytes(load(longest + 1, batched), 0) > usable


@pytest.mark.parametrize(
    ("name", "bytes_per_head"),
    [
        ("auto", 2 * 128 * 2),
        ("fp8", 2 * 128),
        ("fp8_e5m2", 2 * 128),
        ("int8_per_token_head", 2 * 128 + 8),
        ("fp8_per_token_head", 2 * 128 + 8),
        ("int4_per_token_head", 128 + 8),
        ("nvfp4", 2 * (64 + 8)),
        ("turboquant_k8v4", 128 + 64 + 4),
        ("turboquant_4bit_nc", 64 + 2 + 64 + 4),
        ("turboquant_k3v4_nc", 48 + 2 + 64 + 4),
        ("turboquant_3bit_nc", 48 + 2 + 48 + 4),
    ],
)
def test_bytes_of_one_token_in_one_head_of_128(name: str, bytes_per_head: int) -> None:
    """K and V together, scales included."""
    element = "bfloat16" if name == "auto" else "uint8"
    slots, content = CacheDType(name, element).head_bytes(128, 128)
    assert slots * content == bytes_per_head


@pytest.mark.parametrize(
    ("gpu", "dtype", "block_size"),
    [
        ("h100", "auto", 16),
        ("h100", "fp8", 64),  # FLASHMLA
        ("b200", "auto", 32),  # FLASHINFER_MLA
        ("a100", "auto", 16),  # TRITON_MLA
    ],
)
def test_block_size_of_a_latent_by_gpu_and_format(gpu: str, dtype: str, block_size: int) -> None:
    """Each GPU generation has its own kernels, and each kernel its block sizes."""
    figures = size(DEEPSEEK_V3, 4096, gpu=gpu, kv_cache_dtype=dtype).figures
    assert figures["block_size"] == block_size


def test_gpus_are_found_under_usual_names() -> None:
    """Vendor prefixes, memory sizes and case do not matter; the longest name wins."""
    for text, name in (
        ("NVIDIA H100", "h100"),
        ("H100-80GB", "h100"),
        ("l40s", "l40s"),
        ("L40", "l40"),
        ("A100_40GB", "a100-40gb"),
        ("GH200", "gh200-144gb"),
    ):
        assert find_gpu(text).name == name
    with pytest.raises(UsageError, match="not a kind"):
        find_gpu("tpu-v5e")


def test_default_tokens_per_step_by_gpu() -> None:
    """`vllm serve`: 16,384 from 160 GiB, 8,192 from 70 GiB except on A100, else 2,048."""
    defaults = {"b200": 16384, "h100": 8192, "a100": 2048, "l4": 2048}
    assert {name: batch_defaults(find_gpu(name), "huge")[0] for name in defaults} == defaults


def test_skipped_layers_raise_the_block_size() -> None:
    """fp8 with two layers in 16 bit: a quantised page must hold an unquantised one of 16 tokens."""
    figures = size(
        LLAMA, 8192, kv_cache_dtype="fp8", kv_cache_dtype_skip_layers='["0", "31"]'
    ).figures
    assert figures["block_size"] == 32
    assert figures["bytes_per_block"] == [30 * 32 * 2048 + 2 * 32 * 4096]


def test_stages_share_the_smallest_number_of_blocks() -> None:
    """20 + 12 layers: the first stage decides."""
    layout = size(LLAMA, 4096, pp=2, VLLM_PP_LAYER_PARTITION="20,12")
    assert layout.figures["bytes_per_block"] == [20 * 65536, 12 * 65536]
    assert [rank.bytes for rank in layout.ranks] == [257 * 20 * 65536, 257 * 12 * 65536]


def test_with_the_hybrid_manager_off_windows_are_kept_whole() -> None:
    """One group of 62 full layers."""
    figures = size(GEMMA_3_27B, 32768, disable_hybrid_kv_cache_manager="true").figures
    assert [(g["layers"], g["request_blocks"]) for g in figures["groups"]] == [(62, 2048)]


def test_a_named_backend_decides_or_is_refused() -> None:
    """FlashMLA has blocks of 64; it has no kernels for plain attention."""
    assert size(DEEPSEEK_V3, 4096, tp=8, attention_backend="flashmla").figures["block_size"] == 64
    assert size(DEEPSEEK_V3, 4096, tp=8, attention_backend="TRITON_MLA").figures["block_size"] == 16
    refusal = size(LLAMA, 4096, attention_backend="FLASHMLA").refusal
    assert refusal is not None
    assert refusal.code == "no-backend"
    assert "latent-only" in refusal.figures["backends"]["FLASHMLA"]
    with pytest.raises(UsageError, match="ROCM_ATTN is not modelled"):
        size(LLAMA, 4096, attention_backend="ROCM_ATTN")
