"""JSON: one object on one stream, by the contract's names, integers for bytes and tokens."""

from __future__ import annotations

import json
from typing import Any

from kvplan.report.facts import explain_facts, fit_facts, model_rows, size_facts, spec_facts


def dump(data: Any) -> str:
    """The text of a JSON report; what a terminal would obey is escaped, all else as it is."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    if not text.isascii():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return text.replace("\x7f", "\\u007f") + "\n"


def size(results: Any, *, to_file: bool, per_layer: bool = False, layout: bool = False) -> str:
    """`kvplan.size/1`; an engine's groups are always in it."""
    found = [size_facts(result, per_layer=per_layer) for result in results]
    return dump({"schema": "kvplan.size/1", "results": found})


def models(results: Any, *, to_file: bool) -> str:
    """`kvplan.models/1`: the list."""
    return dump({"schema": "kvplan.models/1", "models": model_rows(results)})


def gpus(results: Any, *, to_file: bool) -> str:
    """`kvplan.gpus/1`: the list, or the devices that a name means."""
    from kvplan.report.gpus_page import gpu_facts

    return dump({"schema": "kvplan.gpus/1", "gpus": gpu_facts(results)})


gpu = gpus


def check(results: Any, *, to_file: bool) -> str:
    """`kvplan.check/1`: what the files say."""
    from kvplan.report.check_page import facts_report

    return dump(facts_report(results))


def model(result: Any, *, to_file: bool) -> str:
    """`kvplan.model/1`: one model."""
    return dump({"schema": "kvplan.model/1", "model": spec_facts(result)})


def explain(result: Any, *, to_file: bool) -> str:
    """`kvplan.explain/1`."""
    return dump({"schema": "kvplan.explain/1", **explain_facts(result)})


def fit(result: Any, *, to_file: bool) -> str:
    """`kvplan.fit/1`."""
    from kvplan.plan.fit import Fit

    if isinstance(result, Fit):
        return dump({"schema": "kvplan.fit/1", **fit_facts(result)})
    from kvplan.report.budget_page import answer_facts

    return dump({"schema": "kvplan.fit/1", **answer_facts(result)})


def replay(result: Any, *, to_file: bool) -> str:
    """`kvplan.replay/1`."""
    return dump({"schema": "kvplan.replay/1", **result.facts()})


def verify(result: Any, *, to_file: bool) -> str:
    """`kvplan.verify/1`."""
    from kvplan.report.verification import verification_facts

    return dump({"schema": "kvplan.verify/1", **verification_facts(result)})
