"""vLLM's flags that only its scheduler reads, out of a line; the rest goes to planning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kvplan.engines.kit.argline import Argument, options, parse
from kvplan.engines.kit.words import split_words
from kvplan.engines.vllm.options.flags import TABLE
from kvplan.errors import UsageError
from kvplan.replay.planned import ALL, ENDS, SchedulerOptions

_T = TypeVar("_T")

# What changes who runs when, in ways that replay does not follow.
_REFUSED = {
    "--kv-transfer-config": "KV connectors",
    "--prefill-schedule-interval": "prefill intervals",
    "--prefix-match-unit": "prefix hits inside a block",
    "--max-num-active-seqs": "a bound on active sequences",
    "--max-num-scheduled-tokens": "a budget below max_num_batched_tokens",
    "--long-prefill-token-threshold-adaptive": "adaptive prefill thresholds",
    "--max-num-partial-prefills": "several partial prefills",
    "--scheduler-cls": "other schedulers",
    "--scheduler-delay-factor": "delayed prompts",
}


def split_scheduler_args(text: str) -> tuple[dict[str, str], SchedulerOptions]:
    """(options of the plan, options of the scheduler).

    Raises:
        UsageError: a flag that vLLM lacks or that is not modelled, or a bad value.
    """
    rest: list[Argument] = []
    found: dict[str, str] = {}
    for argument in parse(TABLE, split_words(text)):
        name = argument.flag.spellings[0] if argument.flag and argument.flag.spellings else ""
        if name in _REFUSED:
            if argument.positive:
                raise UsageError(f"replay does not model {_REFUSED[name]} ({name})")
        elif name in _READ:
            found[name] = argument.text if argument.positive else "false"
        else:
            rest.append(argument)
    policy = found.pop("--scheduling-policy", "fcfs")
    if policy != "fcfs":
        raise UsageError(f"replay does not model the scheduling policy {policy!r}")
    plan = options(TABLE, rest)
    if plan.get("enable_chunked_prefill", "true") == "false":
        raise UsageError("replay does not model prompts that may not be cut")
    return plan, SchedulerOptions(
        long_prefill_token_threshold=_value(found, "--long-prefill-token-threshold", _count, 0),
        watermark=_value(found, "--watermark", _share, 0.0),
        retention=_value(found, "--prefix-cache-retention-interval", _retention, "default"),
        reserve_full=_value(found, "--scheduler-reserve-full-isl", _boolean, True),
    )


def _value(found: dict[str, str], name: str, read: Callable[[str], _T], default: _T) -> _T:
    text = found.get(name)
    if text is None:
        return default
    try:
        return read(text.strip())
    except ValueError:
        raise UsageError(f"vllm {name} cannot be {text!r}") from None


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise ValueError(text)
    return number


def _retention(text: str) -> str:
    if text.lower() == "none":
        return ALL
    if text == "0":
        return ENDS
    int(text)
    raise UsageError("replay does not model positive retention intervals")


def _boolean(text: str) -> bool:
    return text.lower() not in ("false", "0", "no", "off")


_READ = (
    "--long-prefill-token-threshold", "--watermark", "--prefix-cache-retention-interval",
    "--scheduler-reserve-full-isl", "--scheduling-policy",
)  # fmt: skip
