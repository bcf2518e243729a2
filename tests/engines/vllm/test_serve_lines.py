"""Lines of `vllm serve` as people have them: what is read, passed over, refused, or not known."""

from __future__ import annotations

import pytest

from kvplan.engines.vllm.options.argline import split_engine_args
from kvplan.engines.vllm.options.flags import TABLE, read_options
from kvplan.engines.vllm.options.other_flags import other_flags
from kvplan.errors import UsageError

LINE = """
VLLM_LOGGING_LEVEL=DEBUG CUDA_VISIBLE_DEVICES=0,1 VLLM_KV_CACHE_LAYOUT=BLHNC
--served-model-name chat chat-v2 --trust-remote-code --host 0.0.0.0 --port 8000 --enforce-eager
-tp 2 --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser=deepseek_r1
--no-enable-log-requests --disable-log-stats -O3 -cc.mode 3 --api-key a b --seed -1
--compilation-config '{"cudagraph_mode": "FULL"}' --limit-mm-per-prompt '{"image": 10}'
--distributed-executor-backend mp --swap-space 4 --max-model-len 32k --hf_token -ep
"""


def test_a_whole_line_of_serve() -> None:
    """Ports, names and parsers do not change the cache or the start; these words do."""
    found = split_engine_args(LINE)
    assert found == {
        "compilation_config": '{"mode": 3}',
        "VLLM_KV_CACHE_LAYOUT": "BLHNC",
        "tensor_parallel_size": "2",
        "max_model_len": "32k",
        "enforce_eager": "true",
        "enable_expert_parallel": "true",
        "optimization_level": "3",
        "distributed_executor_backend": "mp",
        "swap_space": "4",
    }


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("--kv-transfer-config '{}'", None),
        ("--disable-sliding-window", None),
        ("--hf-overrides.rope_scaling x", None),
        ("--prefill-context-parallel-size 2", None),
        ("--attention-config.backend FLASHINFER", "--attention-backend is read"),
        ("--limit-mm-per-prompt image=0", "--language-model-only is read"),
        ("--spec-method mtp", "--speculative-config '{...}' is read"),
        ("--performance-mode throughput", None),
        ("VLLM_SSM_CONV_STATE_LAYOUT=DS", None),
        ("VLLM_USE_V1=0", "--engine vllm@0.7.3 is the newest engine before V1"),
    ],
)
def test_what_may_change_the_cache_is_an_error(text: str, hint: str | None) -> None:
    """Nothing that matters is passed over."""
    with pytest.raises(UsageError, match="may change the cache and is not modelled") as error:
        split_engine_args(text)
    assert error.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "--prefill-context-parallel-size 1",
        "--runner=generate --task generate",
        "--performance-mode interactivity",
        "--no-disable-sliding-window --no-enable-dbo --disable-dbo",
    ],
)
def test_a_value_that_changes_nothing_is_passed_over(text: str) -> None:
    """The flag is named, the cache is the same."""
    assert split_engine_args(text) == {}


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("--max-model-length 5", "--max-model-len"),
        ("--served-model-nmae x", "--served-model-name"),
        ("--enforce_eagre", "--enforce-eager"),
    ],
)
def test_a_slip_is_an_error_with_the_nearest_flag(text: str, nearest: str) -> None:
    """One name, whole."""
    with pytest.raises(UsageError) as error:
        split_engine_args(text)
    assert error.value.hint == f"did you mean {nearest}?"


def test_what_resembles_nothing_has_a_short_hint() -> None:
    """Not a list of hundreds."""
    with pytest.raises(UsageError, match="not a vllm option") as error:
        read_options({"xyzzy": "1"})
    assert error.value.hint == "`vllm serve --help=all` lists vllm's own"


@pytest.mark.parametrize("text", ["--port", "--port --host x", "stray", "--enforce-eager stray"])
def test_a_missing_value_and_a_stray_word_are_errors(text: str) -> None:
    """As for the flags that are read."""
    with pytest.raises(UsageError, match=r"lacks its value|follows no flag"):
        split_engine_args(text)


def test_no_flag_is_both_read_and_passed_over() -> None:
    """The two tables do not overlap."""
    passed = {spelling for flag in other_flags() for spelling in flag.spellings}
    assert not passed & {spelling for flag in TABLE.flags for spelling in flag.spellings}
