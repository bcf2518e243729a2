"""From command-line texts to a `Request`: where the meaning of the shared options is decided."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.cli.options import Values
from kvplan.dtypes import find_dtype
from kvplan.engines import find_engine
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.units import parse_count, parse_tokens


def request_from(
    values: Values, *, dtype: str, options: Mapping[str, str] | None = None
) -> Request:
    """The request that the options describe, in one cache format.

    Raises:
        UsageError: a value that is no number, or out of range.
    """
    ctx, encoder = values["ctx"], values["encoder_tokens"]
    return Request(
        ctx=parse_tokens(ctx) if ctx is not None else None,
        batch=parse_count(values["batch"], "--batch"),
        dtype=dtype,
        dtype_k=values["dtype_k"],
        dtype_v=values["dtype_v"],
        encoder_tokens=parse_tokens(encoder, "--encoder-tokens") if encoder is not None else None,
        with_draft=values["with_draft"],
        tp=_ranks(values, "tp"),
        pp=_ranks(values, "pp"),
        dp=_ranks(values, "dp"),
        dcp=_ranks(values, "dcp"),
        options=options or {},
    )


def _ranks(values: Values, name: str) -> int:
    """Ranks of one kind of parallelism; 1 for a command that has no such option."""
    return parse_count(values.get(name, "1"), f"--{name}")


def dtypes_from(values: Values) -> list[str]:
    """The formats of `--dtype A,B`, at least one.

    Without an engine `bf16` and `bfloat16` are one. An engine may store two spellings of one format
    in different rows (vLLM's `fp8` and `fp8_e4m3`), so there only equal ones are.

    Raises:
        UsageError: an empty entry, or nothing left to say.
    """
    both = values["dtype_k"] is not None and values["dtype_v"] is not None
    if both and values["dtype"] != "auto":
        raise UsageError("--dtype-k and --dtype-v leave nothing for --dtype to say")
    names = [name.strip() for name in values["dtype"].split(",")]
    if not all(names):
        raise UsageError(f"--dtype {values['dtype']!r} has an empty entry")
    unique: dict[object, str] = {}
    logical = find_engine(values["engine"])[0].whole_model if "engine" in values else True
    for name in names:
        meaning = find_dtype(name) if logical else None
        unique.setdefault(meaning or name.lower(), name)
    return list(unique.values())


def dtype_from(values: Values, command: str) -> str:
    """The format of `--dtype`, for a command that takes one.

    Raises:
        UsageError: several.
    """
    first, *more = dtypes_from(values)
    if more:
        raise UsageError(f"{command} takes one --dtype; size puts several side by side")
    return first
