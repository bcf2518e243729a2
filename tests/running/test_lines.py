"""vLLM's log lines in the wordings of its versions; the samples are made up in their form."""

from __future__ import annotations

import pytest

from kvplan.running import seen as s
from kvplan.running.seen import Seen
from kvplan.running.vllm.lines import read_line


def _read(*lines: str) -> Seen:
    found = Seen(engine="vllm", first_line=1)
    for number, line in enumerate(lines, 1):
        read_line(line, number, found)
    return found


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("INFO llm_engine.py:223] # GPU blocks: 1464, # CPU blocks: 655", {s.BLOCKS: 1464}),
        ("# cuda blocks: 1224, # CPU blocks: 2048", {s.BLOCKS: 1224, s.CPU_BLOCKS: 2048}),
        ("# GPU blocks: 1952", {s.BLOCKS: 1952}),
        ("GPU KV cache size: 136,080 tokens", {s.CAPACITY: 136080}),
        ("CPU KV cache size: 512 tokens", {s.CAPACITY: 512}),
        ("Maximum concurrency for 40,960 tokens per request: 3.32x", {s.CONCURRENCY: 3.32}),
        (
            "GPU KV cache size: 55 tokens, Maximum concurrency for 64 tokens per request: 0.86x",
            {s.CAPACITY: 55, s.CONCURRENCY: 0.86},
        ),
        ("Available KV cache memory: 18.7 GiB", {s.AVAILABLE: 18.7}),
        ("Available KV cache memory: -2.16 GiB", {s.AVAILABLE: -2.16}),
        ("the rest of the memory reserved for KV Cache is 3.81GiB.", {s.AVAILABLE: 3.81}),
        ("Memory profiling results: kv_cache_size=3.81GiB x=1", {s.AVAILABLE: 3.81}),
        ("Setting attention block size to 1600 tokens to ensure that", {s.BLOCK_SIZE: 1600}),
        (
            "ValueError: ... max seq len (16384), (3.0 GiB KV cache is needed, ... available KV "
            "cache memory (0.18 GiB). ... maximum model length is 976.",
            {s.NEEDED: 3.0, s.NEEDED_AVAILABLE: 0.18, s.LONGEST: 976},
        ),
        (
            "max seq len (8192), (1.00 GB KV cache is needed ... available KV cache memory "
            "(0.50 GB).",
            {s.NEEDED: 1.0, s.NEEDED_AVAILABLE: 0.5},
        ),
    ],
)
def test_figures(line: str, figures: dict[str, float]) -> None:
    """Every wording gives its figure, whatever stands before it."""
    for prefix in ("", "(EngineCore_DP0 pid=7) INFO 01-02 03:04:05 [core.py:1] ", "rank0 | "):
        found = _read(prefix + line)
        for name, value in figures.items():
            assert found.figures[name].value == value


def test_gib_are_rounded_to_two_decimals_even_without_zeros() -> None:
    """`2.4 GiB` is 2.40: true values lie between 2.395 and 2.405."""
    printed = _read("Available KV cache memory: 2.4 GiB").figures[s.AVAILABLE]
    assert printed.low == pytest.approx(2.395)
    assert printed.high == pytest.approx(2.405)


def test_configuration_line() -> None:
    """Model, version, length, ranks, format and drafting are read out of the long line."""
    facts = _read(
        "Initializing a V1 LLM engine (v0.11.2) with config: model='a/B', speculative_config="
        "SpeculativeConfig(method='mtp', model='a/B', num_spec_tokens=3), tokenizer='a/T', "
        "dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=4, pipeline_parallel_size=1,"
        " quantization=None, kv_cache_dtype=fp8_e4m3, enable_prefix_caching=False, x=y"
    ).facts
    assert {name: fact.value for name, fact in facts.items()} == {
        "version": "0.11.2",
        "model": "a/B",
        "dtype": "bfloat16",
        "max_model_len": "32768",
        "tensor_parallel_size": "4",
        "pipeline_parallel_size": "1",
        "kv_cache_dtype": "fp8_e4m3",
        "enable_prefix_caching": "false",
        "speculative_config": '{"method": "mtp", "num_speculative_tokens": 3, "model": "a/B"}',
    }


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {'model': 'a/B', 'max_num_batched_tokens': 512, 'block_size': 32, "
        "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}}",
        "args: Namespace(host=None, model='a/B', max_num_batched_tokens=512, block_size=32, "
        "speculative_config={'method': 'mtp', 'num_speculative_tokens': 1}, seed=0)",
    ],
)
def test_argument_lines(line: str) -> None:
    """Options that no configuration line shows stand among the arguments."""
    facts = _read(line).facts
    assert facts["model"].value == "a/B"
    assert facts["max_num_batched_tokens"].value == "512"
    assert facts["block_size"].value == "32"
    assert facts["speculative_config"].value == '{"method": "mtp", "num_speculative_tokens": 1}'


def test_banner_and_notes() -> None:
    """The server's banner, the chunked prefill note and an override are settings too."""
    facts = _read(
        "INFO  ▄▄ ▄█ █     █  version 0.17.0",
        "INFO  █▄█▀ █     █   model   a/B",
        "Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "Overriding num_gpu_blocks=10 with num_gpu_blocks_override=50",
    ).facts
    assert {name: fact.value for name, fact in facts.items()} == {
        "version": "0.17.0",
        "model": "a/B",
        "max_num_batched_tokens": "8192",
        "num_gpu_blocks_override": "50",
    }


def test_outcomes() -> None:
    """How a start ended: with a pool, with a refusal, or for a reason the line does not name."""
    assert _read("GPU KV cache size: 16 tokens").outcome == s.STARTED
    assert _read("ValueError: No available memory for the cache blocks.").outcome == s.NO_MEMORY
    assert _read("RuntimeError: Engine core initialization failed.").outcome == s.FAILED
    small = _read("The model's max seq len (29000) is larger than ... KV cache (23648).")
    assert small.outcome == s.TOO_LONG
    assert small.figures[s.POOL_TOKENS].value == 23648


def test_the_smallest_rank_decides() -> None:
    """Ranks print one figure each; the pool is as large as the smallest allows."""
    found = _read(*(f"(TP{r}) Available KV cache memory: {v} GiB" for r, v in ((0, 9.5), (1, 9.4))))
    assert found.figures[s.AVAILABLE].value == 9.4


@pytest.mark.parametrize(
    "line",
    [
        "total_gpu_memory=1GiB" * 2000,
        "[█" * 8000,
        "SpeculativeConfig(" * 2000,
        "Initializing an LLM engine with config: " + "model='" * 4000,
        "max seq len (1" * 2000,
        "GPU KV cache size: " + "9" * 30000 + " tokens",
        "non-default args: " + "{" * 30000,
    ],
)
def test_hostile_lines_cost_nothing(line: str) -> None:
    """No line makes reading slow or numbers endless."""
    _read(line)
