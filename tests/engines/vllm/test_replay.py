"""vLLM 0.33.0's own plans, replayed: bytes per block, request blocks, capacity, refusals."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

from kvplan.importers.config import import_config
from kvplan.spec.model import ModelSpec
from tests.engines.vllm.replay import committed, differences, plan, shared_cases
from tests.evidence import TRUTH

# Recorded refusals that are not of the planning: weight kernels, and a class that the recording
# tried through a generic loader.
NOT_OF_THE_CACHE = ("weights-not-divisible", None)


class _Imported(dict[str, ModelSpec]):
    """Specs read from the checkpoints' configs when first asked for."""

    def __init__(self, configs: dict[str, Any]) -> None:
        super().__init__()
        self.configs = configs

    def __missing__(self, name: str) -> ModelSpec:
        self[name] = import_config(self.configs[name]["config"], name=name).spec
        return self[name]


def test_every_committed_plan_is_equal() -> None:
    """All planned cases agree in every figure that vLLM plans."""
    specs, cases = committed()
    planned = [case for case in cases if case.planned]
    wrong = {case.id: found for case in planned if (found := differences(case, plan(case, specs)))}
    assert len(planned) == 1153
    assert wrong == {}


def test_committed_refusals_have_the_same_code() -> None:
    """Each recorded refusal has its code and the type of vLLM's exception."""
    specs, cases = committed()
    refused = [case for case in cases if not case.planned]
    expected = [case for case in refused if case.output["code"] not in NOT_OF_THE_CACHE]
    wrong = {case.id: found for case in expected if (found := differences(case, plan(case, specs)))}
    assert len(expected) == 107
    assert len(expected) / len(refused) > 0.97
    assert wrong == {}


def test_all_kinds_of_caches_and_options_are_replayed() -> None:
    """The committed cases cover every kind of group and every option that is modelled."""
    specs, cases = committed()
    kinds: Counter[str] = Counter()
    options: Counter[str] = Counter()
    for case in cases:
        options.update((*case.input, *case.input.get("extra", ())))
        if case.planned:
            layout = plan(case, specs)
            kinds.update(
                {m["kind"] for group in layout.figures["groups"] for m in group["members"]}
            )
    assert set(kinds) == {"full", "mla", "sliding", "sliding_mla", "chunked", "state", "cross"}
    assert {"tp", "pp", "dcp", "block_size", "env", "gpu", "speculative_config"} <= set(options)


def test_planning_a_case_takes_under_five_milliseconds() -> None:
    """The whole replay, spread over its cases, stays far below the bound."""
    specs, cases = committed()
    start = time.process_time()
    for case in cases:
        plan(case, specs)
    assert (time.process_time() - start) / len(cases) < 0.005


@pytest.mark.evidence
def test_every_recorded_plan_is_equal_from_its_config() -> None:
    """The same through the importer, from each checkpoint's own config.json."""
    configs = json.loads((TRUTH / "vllm_configs.json").read_text())
    specs = _Imported(configs)
    wrong = {}
    planned = refused = same = 0
    for case in shared_cases():
        kind = case.output.get("kind")
        if kind not in (None, "refused"):
            continue
        found = differences(case, plan(case, specs))
        if case.planned:
            planned += 1
            if found:
                wrong[case.id] = found
        else:
            refused += 1
            same += not found
    assert wrong == {}
    assert planned == 1153
    assert same / refused >= 0.9
