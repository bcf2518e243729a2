"""vLLM's flags: spellings, its own number rules, negations, and what is not known."""

from __future__ import annotations

import pytest

from kvplan.engines.kit.values import human_int
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.engines.vllm.options.argline import split_engine_args
from kvplan.engines.vllm.options.asked import settled
from kvplan.engines.vllm.options.flags import TABLE, read_options
from kvplan.engines.vllm.options.settings import read_settings
from kvplan.errors import UsageError
from tests.engines.vllm.models import GIB, LLAMA, fit, size

RULES, _ = rules_of("0.33.0")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8192", 8192),
        ("32k", 32000),
        ("32K", 32768),
        ("25.6k", 25600),
        ("1M", 2**20),
        ("1m", 10**6),
    ],
)
def test_numbers_are_read_as_vllm_reads_them(text: str, value: int) -> None:
    """Small suffixes are decimal, capital ones binary."""
    assert human_int(text) == value


def test_decimals_with_a_binary_suffix_are_refused() -> None:
    """vLLM refuses 1.5K."""
    with pytest.raises(UsageError, match=r"cannot be '1\.5K'"):
        read_options({"max_model_len": "1.5K"})


def test_a_line_of_engine_arguments_becomes_options() -> None:
    """Long and short spellings, `=`, quoted JSON, lists and negative numbers."""
    line = (
        "-tp 4 --max-model-len=32k --kv-cache-dtype-skip-layers 0 31 --max_num_seqs 64 "
        '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
    )
    assert split_engine_args(line) == {
        "tensor_parallel_size": "4",
        "max_model_len": "32k",
        "kv_cache_dtype_skip_layers": "0 31",
        "max_num_seqs": "64",
        "speculative_config": '{"method": "mtp", "num_speculative_tokens": 1}',
    }
    assert split_engine_args("--max-model-len -1") == {"max_model_len": "-1"}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--enable-prefix-caching", "enable_prefix_caching", "true"),
        ("--no-enable-prefix-caching", "enable_prefix_caching", "false"),
        ("--disable-prefix-caching", "enable_prefix_caching", "false"),
        ("--enable-prefix-caching false", "enable_prefix_caching", "false"),
        ("--disable-hybrid-kv-cache-manager", "disable_hybrid_kv_cache_manager", "true"),
        ("--no-async-scheduling", "async_scheduling", "false"),
    ],
)
def test_switches_and_their_negations(text: str, name: str, value: str) -> None:
    """`--no-x`, and `--enable-x` against `--disable-x`."""
    assert split_engine_args(text) == {name: value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--max-model-length 5", "not a vllm option"),
        ("--max-model-len", "lacks its value"),
        ("32768", "follows no flag"),
        ("--block-size sixteen", "cannot be 'sixteen'"),
        ("--speculative-config '[1]'", "cannot be '\\[1\\]'"),
        ("'--quote", "cannot be split"),
    ],
)
def test_what_vllm_does_not_have_is_an_error(text: str, message: str) -> None:
    """Unknown flags are named with the closest known ones; nothing is passed over."""
    with pytest.raises(UsageError, match=message):
        read_options(split_engine_args(text))


def test_options_take_dashes_and_underscores() -> None:
    """Both are names of the same flag."""
    assert read_options({"max-num-seqs": "8"}) == read_options({"max_num_seqs": "8"})


def test_every_flag_has_an_origin_and_a_unique_name() -> None:
    """The table is complete and free of doubles."""
    names = [flag.name for flag in TABLE.flags]
    spellings = [spelling for flag in TABLE.flags for spelling in flag.spellings]
    assert len(set(names)) == len(names)
    assert len(set(spellings)) == len(spellings)
    assert all(flag.origin for flag in TABLE.flags)


def test_ranks_given_twice_must_agree() -> None:
    """`tp` of the request and --tensor-parallel-size."""
    request = Request(tp=2, options={"tensor_parallel_size": "4"})
    with pytest.raises(UsageError, match="tensor_parallel_size is 4"):
        read_settings(request, RULES)
    assert read_settings(Request(options={"tensor_parallel_size": "4"}), RULES).tp == 4


def test_flags_of_the_request_move_into_it() -> None:
    """Length, ranks and format belong to the request; other flags stay options."""
    asked = Request(
        options={
            "max-model-len": "8k", "tensor_parallel_size": "2", "kv_cache_dtype": "fp8",
            "block_size": "32",
        }
    )  # fmt: skip
    assert settled(asked) == Request(ctx=8000, tp=2, dtype="fp8", options={"block_size": "32"})


def test_a_length_beside_another_ctx_is_the_engines() -> None:
    """vLLM plans for 8,192 tokens (512 blocks); the sequences have 4,096 (256 blocks)."""
    own = {"max_model_len": "8192"}
    assert settled(Request(ctx=4096, options=own)).options == own
    assert size(LLAMA, 4096, max_model_len=8192).figures["request_blocks"] == 256
    assert size(LLAMA, 8192, max_model_len=8192).figures["request_blocks"] == 512
    longer = size(LLAMA, 9000, max_model_len=8192).refusal
    assert longer is not None
    assert (longer.code, longer.figures["max_model_len"]) == ("length-above-limit", 8192)
    plan = fit(LLAMA, GIB, 4096, max_model_len=8192)
    assert plan.figures["request_blocks"] == 512
    assert any("4,096" in note.origin for note in plan.provenance)


def test_auto_stays_the_engines_to_decide() -> None:
    """Only memory decides what -1 becomes: 511 usable blocks of 16 tokens in 1 GiB."""
    assert settled(Request(options={"max_model_len": "-1"})).options == {"max_model_len": "-1"}
    assert fit(LLAMA, GIB, None, max_model_len=-1).figures["max_model_len"] == 511 * 16


def test_flags_that_contradict_the_request_are_errors() -> None:
    """Two different words about one thing."""
    with pytest.raises(UsageError, match="tensor_parallel_size is 2"):
        settled(Request(tp=4, options={"tensor_parallel_size": "2"}))
    with pytest.raises(UsageError, match="kv_cache_dtype is fp8"):
        settled(Request(dtype="bf16", options={"kv_cache_dtype": "fp8"}))


def test_speculation_needs_its_number_of_tokens() -> None:
    """A config without num_speculative_tokens is not completed by a guess."""
    options = {"speculative_config": '{"method": "mtp"}'}
    with pytest.raises(UsageError, match="num_speculative_tokens"):
        read_settings(Request(options=options), RULES)


def test_draft_layers_need_speculation() -> None:
    """Draft layers are counted only with --speculative-config."""
    with pytest.raises(UsageError, match="draft layers only with speculative"):
        read_settings(Request(with_draft=True), RULES)


def test_k_and_v_have_one_format() -> None:
    """vLLM has one --kv-cache-dtype."""
    with pytest.raises(UsageError, match="one format"):
        read_settings(Request(dtype_k="q8_0"), RULES)


def test_json_values_given_key_by_key() -> None:
    """`--speculative-config.method mtp` and so on are one JSON object."""
    line = "-sc.method mtp --speculative-config.num_speculative_tokens 2 --block-size=32"
    options = split_engine_args(line)
    assert read_options(options)["speculative_config"] == {
        "method": "mtp",
        "num_speculative_tokens": 2,
    }
    assert options["block_size"] == "32"
    with pytest.raises(UsageError, match="block_size has no parts"):
        split_engine_args("--block-size.x 3")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpu_memory_utilization", "nan"),
        ("gpu_memory_utilization", "5"),
        ("gpu_memory_utilization", "0"),
        ("gpu_memory_utilization", "-0.5"),
        ("mamba_block_size", "0"),
        ("mamba_block_size", "-16"),
    ],
)
def test_values_outside_of_a_flags_bounds(name: str, text: str) -> None:
    """config/cache.py declares 0 < share <= 1 and a positive block size."""
    with pytest.raises(UsageError, match=f"cannot be '{text}'"):
        read_options({name: text})
    assert read_options({"gpu_memory_utilization": "1"}) == {"gpu_memory_utilization": 1.0}
