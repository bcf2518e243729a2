"""Suffixes of re-uploads: the base's name, by the longest known name first."""

from __future__ import annotations

import pytest

from kvplan.spec.copies import bare_base, copy_of, draft_word

KNOWN = {
    "qwen/qwen3-8b",
    "qwen3-8b",
    "deepseek-r1",
    "deepseek-r1-distill-qwen-32b",
    "codellama-13b-instruct-hf",
    "nvidia/qwen3.6-27b-nvfp4",
    "qwen3.6-27b-nvfp4",
    "qwen3.6-27b",
    "meta-llama-3.1-8b-instruct",
    "smollm-1.7b-instruct",
}


@pytest.mark.parametrize(
    ("name", "base", "method", "effects"),
    [
        ("unsloth/Qwen3-8B", "qwen3-8b", None, set()),
        ("unsloth/Qwen3-8B-GGUF", "qwen3-8b", "gguf", set()),
        ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "qwen3-8b", "gguf", set()),
        ("hf.co/unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "qwen3-8b", "gguf", set()),
        ("bartowski/Qwen_Qwen3-8B-GGUF", "qwen3-8b", "gguf", set()),
        ("mradermacher/Qwen3-8B-abliterated-i1-GGUF", "qwen3-8b", "gguf", {"tuned"}),
        ("mlx-community/Qwen3-8B-4bit", "qwen3-8b", "mlx", set()),
        ("lmstudio-community/Qwen3-8B-MLX-5bit", "qwen3-8b", "mlx", set()),
        ("cyankiwi/Qwen3-8B-AWQ-4bit", "qwen3-8b", "awq", set()),
        ("x/Qwen3-8B-GPTQ-Int8", "qwen3-8b", "gptq", set()),
        ("x/Qwen3-8B-unsloth-bnb-4bit", "qwen3-8b", "bitsandbytes", set()),
        ("x/Qwen3-8B-FP8-dynamic", "qwen3-8b", "fp8", set()),
        ("x/Qwen3-8B-FP8-KV", "qwen3-8b", "fp8", {"kv8"}),
        ("x/Qwen3-8B-NVFP4", "qwen3-8b", "modelopt", {"kv?"}),
        ("x/Qwen3-8B-quantized.w4a16", "qwen3-8b", "compressed-tensors", set()),
        ("x/Qwen3-8B-3.0bpw-exl2", "qwen3-8b", "exl2", set()),
        ("x/Qwen3-8B-128k", "qwen3-8b", None, {"context"}),
        ("TheBloke/CodeLlama-13B-Instruct-GGUF", "codellama-13b-instruct-hf", "gguf", set()),
        ("x/Llama-3.1-8B-Instruct-AWQ", "meta-llama-3.1-8b-instruct", "awq", set()),
        ("x/DeepSeek-R1-Distill-Qwen-32B-AWQ", "deepseek-r1-distill-qwen-32b", "awq", set()),
        # Another uploader's NVFP4 copy is the base's, not NVIDIA's, whose cache is declared FP8.
        ("unsloth/Qwen3.6-27B-NVFP4", "qwen3.6-27b", "modelopt", {"kv?"}),
    ],
)
def test_a_copy_is_its_base(name: str, base: str, method: str | None, effects: set[str]) -> None:
    """Each suffix of the table is taken off, in any case, with any uploader."""
    found = copy_of(name, KNOWN.__contains__)
    assert found is not None
    assert (found.base, found.quant_method, found.effects) == (base, method, effects)


@pytest.mark.parametrize(
    "name",
    [
        "x/Qwen3-8B-A3B-Coder",  # a second size: another model
        "x/Kimi-K3-0.40B",
        "x/tiny-random-Qwen3-8B",
        "x/Qwen3-8B-Instruct",  # a release of its own
        "x/DeepSeek-R1-Distill-Llama-70B",  # never the teacher
        "x/Qwen3-8B-something",
        "Qwen",
        "-gguf",
        "",
    ],
)
def test_what_is_not_in_the_table_is_no_copy(name: str) -> None:
    """A free suffix stays unknown."""
    assert copy_of(name, KNOWN.__contains__) is None


def test_a_known_name_is_never_cut() -> None:
    """A suffix of a known name is part of it."""
    found = copy_of("x/SmolLM-1.7B-Instruct-GGUF", KNOWN.__contains__)
    assert found is not None
    assert found.base == "smollm-1.7b-instruct"


def test_draft_words() -> None:
    """A draft is told by a whole word of its name."""
    assert draft_word("z-lab/Qwen3.6-27B-DFlash") == "dflash"
    assert draft_word("thoughtworks/GLM-4.7-Flash-Eagle3") == "eagle3"
    assert draft_word("google/gemma-4-31B-it-assistant") == "assistant"
    assert draft_word("someone/eagles-7b") is None


def test_the_base_is_named_as_it_is_written() -> None:
    """For a message about a copy whose base is not known."""
    assert bare_base("TheBloke/openchat-3.5-0106-GGUF") == "openchat-3.5-0106"
    assert bare_base("x/Foo-7B-abliterated-GGUF:Q4_K_M") == "Foo-7B-abliterated"
    assert bare_base("x/Foo-7B") is None
