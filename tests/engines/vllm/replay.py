"""Recorded plans of vLLM 0.33.0 held against the engine: reading of inputs, comparison of outputs.

The committed form is `tests/data/vllm/plans.json`: spec documents (the vocabulary of kvplan's own
specs), inputs that differ from the defaults, and what vLLM planned or why it refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.documents.document import Document
from kvplan.engines.layout import CacheLayout
from kvplan.engines.request import Request
from kvplan.engines.vllm import VllmEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec
from tests.evidence import TRUTH

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "tests" / "data" / "vllm" / "plans.json"
VERSION = "0.33.0"

# What every recorded case was given where it says nothing else.
DEFAULTS = {"available_bytes": 42949672960, "max_num_batched_tokens": 8192, "gpu": "h100"}

# Keys of an input that are vLLM's flags.
FLAG_KEYS = ("kv_cache_dtype", "max_model_len", "max_num_batched_tokens", "block_size", "gpu")

# A bare assertion and a division by zero say nothing, and the record took them all for stages
# without a cache. Behind them stand 10 and 8 KV heads that do not go into the ranks, and a
# state's kernel that takes float32 only; each case has a single stage.
CORRECTED = {
    ("microsoft__phi-4", "stage-without-cache"): "heads-not-divisible",
    ("openai__gpt-oss-120b", "stage-without-cache"): "heads-not-divisible",
    ("openai__gpt-oss-20b", "stage-without-cache"): "heads-not-divisible",
    ("moonshotai__Kimi-Linear-48B-A3B-Instruct", "stage-without-cache"): "state-format-unsupported",
}

# Figures compared one to one: key of the record -> key of CacheLayout.figures.
COMPARED = {
    "bytes_per_block": "bytes_per_block",
    "request_bytes": "request_bytes",
    "fits": "fits",
    "num_blocks": "num_blocks",
    "capacity_tokens": "capacity_tokens",
    "max_concurrency": "max_concurrency",
    "allocated_bytes": "allocated_bytes",
    "max_model_len": "max_model_len",
}


class Case(NamedTuple):
    """One recorded start of vLLM."""

    id: str
    model: str
    input: Mapping[str, Any]
    output: Mapping[str, Any]

    @property
    def planned(self) -> bool:
        """Whether vLLM came as far as a plan."""
        return "failed" not in self.output


def request_of(case: Case) -> Request:
    """The request that the recorded command line makes.

    The recording stops at the plan, before CUDA graphs hold max_num_seqs against it.
    """
    given = {**DEFAULTS, **case.input}
    options = {"enforce_eager": "true"} | {
        key: str(given[key]) for key in FLAG_KEYS if given.get(key) is not None
    }
    for key, value in given.get("extra", {}).items():
        options[key] = value if isinstance(value, str) else json.dumps(value)
    options |= given.get("env", {})
    return Request(
        tp=given.get("tp", 1), pp=given.get("pp", 1), dcp=given.get("dcp", 1), options=options
    )


def plan(case: Case, specs: Mapping[str, ModelSpec]) -> CacheLayout:
    """kvplan's plan for a case.

    The recorded run built the layers of draft models from the target's own configuration (its
    weights are exactly twice the target's), so a draft that is accepted is the target here.
    """
    spec = specs[case.model]

    def draft(name: str) -> ModelSpec:
        return spec if specs[name].vocab_size == spec.vocab_size else specs[name]

    available = case.input.get("available_bytes", DEFAULTS["available_bytes"])
    return VllmEngine(load_model=draft).fit(spec, request_of(case), VERSION, available)


def differences(case: Case, layout: CacheLayout) -> list[str]:
    """What is not as recorded, one line each."""
    if not case.planned:
        return [] if _same_refusal(case, layout) else [_refusals(case, layout)]
    figures = layout.figures
    if "groups" not in figures:
        return [f"refused: {layout.refusal} {layout.reasons}"]
    found = [
        f"{key}: recorded {case.output[key]}, planned {figures[name]}"
        for key, name in COMPARED.items()
        if key in case.output and case.output[key] != figures[name]
    ]
    blocks = [group["request_blocks"] for group in figures["groups"]]
    if case.output["group_blocks"] != blocks:
        found.append(f"groups: recorded {case.output['group_blocks']}, planned {blocks}")
    if not _same_refusal(case, layout):
        found.append(_refusals(case, layout))
    elif layout.refusal is not None:
        found += _printed_differences(case, layout.refusal.figures)
    return found


def _same_refusal(case: Case, layout: CacheLayout) -> bool:
    """Same code and same type of exception, or none on both sides."""
    code = case.output.get("code")
    if layout.refusal is None or code is None:
        return layout.refusal is None and code is None
    exception = case.output.get("exception", layout.refusal.exception)
    return (layout.refusal.code, layout.refusal.exception) == (code, exception)


def _printed_differences(case: Case, figures: Mapping[str, Any]) -> list[str]:
    """A refusal's figures against those that vLLM printed, GiB rounded to two decimals."""
    expected = {
        name: case.output[name]
        for name in ("needed_gib_printed", "available_gib_printed", "longest_printed")
        if case.output.get(name) is not None
    }
    planned = {
        "needed_gib_printed": round(figures.get("needed_bytes", 0) / 2**30, 2),
        "available_gib_printed": round(figures.get("available_bytes", 0) / 2**30, 2),
        "longest_printed": figures.get("longest"),
    }
    return [
        f"{name}: recorded {value}, planned {planned[name]}"
        for name, value in expected.items()
        if planned[name] != value
    ]


def _refusals(case: Case, layout: CacheLayout) -> str:
    recorded = (case.output.get("exception"), case.output.get("code"))
    return f"refusal: recorded {recorded}, planned {layout.refusal}"


@cache
def committed() -> tuple[dict[str, ModelSpec], tuple[Case, ...]]:
    """The committed specs and cases."""
    data = json.loads(COMMITTED.read_text())
    specs = {
        name: read_spec(Document(data=spec, name=name)) for name, spec in data["specs"].items()
    }
    cases = tuple(
        Case(item["id"], item["model"], item["in"], _unpacked(item["out"]))
        for item in data["cases"]
    )
    return specs, cases


def _unpacked(output: Mapping[str, Any]) -> dict[str, Any]:
    if "groups" not in output:
        return dict(output)
    blocks = [count for times, count in output["groups"] for _ in range(times)]
    return {**{k: v for k, v in output.items() if k != "groups"}, "group_blocks": blocks}


def packed_groups(blocks: list[int]) -> list[list[int]]:
    """Equal neighbours counted: [513, 513, 512] -> [[2, 513], [1, 512]]."""
    return [[len(list(run)), count] for count, run in groupby(blocks)]


def shared_cases() -> Iterator[Case]:
    """The recorded cases as they were written down, beside the repository."""
    for item in json.loads((TRUTH / "vllm.json").read_text())["cases"]:
        output = dict(item["output"])
        if output["how"] == "model":
            output["group_blocks"] = [group["request_blocks"] for group in output["groups"]]
        else:
            output["failed"] = True
            output["code"] = CORRECTED.get(
                (item["input"]["model"], output.get("code")), output.get("code")
            )
        yield Case(item["id"], item["input"]["model"], item["input"], output)
