"""Engines' own flags on kvplan's command line, under the engines' own names.

The common ones stand here by name; any other goes through `--engine-args` in the engine's spelling.
What a flag means, and whether the engine has it, the engine itself decides.
"""

from __future__ import annotations

from kvplan.cli.options import Option, Values, grouped
from kvplan.engines import find_engine
from kvplan.errors import UsageError

ENGINE_OPTIONS = grouped(
    "The engine",
    Option("gpu", "the device, for the kernels and so the block sizes an engine chooses", "NAME"),
    Option("block_size", "vllm: tokens per block", "N"),
    Option("max_num_batched_tokens", "vllm: tokens per step", "N"),
    Option("max_num_seqs", "vllm: sequences per step", "N"),
    Option("cache_implementation", "transformers: dynamic, static, quantized, paged", "NAME"),
    Option("max_cache_len", "transformers: slots of a static cache", "N"),
    Option("prefill", "transformers: tokens of the prompt; the rest is decoded", "N"),
)


def needs_engine(name: str) -> UsageError:
    """The error for an engine's flag without an engine."""
    return UsageError(
        f"--{name} is an engine's flag, and the logical figure has no engine",
        hint="give --engine vllm (or another engine)",
    )


def options_from(values: Values, engine: str) -> dict[str, str]:
    """The engine's options that a command line gives, by the engine's names.

    Raises:
        UsageError: engine flags without an engine, or flags the engine cannot split.
    """
    given = {
        option.name: values[option.name]
        for option in ENGINE_OPTIONS
        if values[option.name] is not None
    }
    text = values["engine_args"]
    found, _ = find_engine(engine)
    if found.whole_model:
        if given or text is not None:
            name = next(iter(given), "engine_args").replace("_", "-")
            raise needs_engine(name)
        return {}
    if text is not None:
        given |= found.split_args(text)
    return given
