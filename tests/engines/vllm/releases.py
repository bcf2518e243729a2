"""Plans that fifteen older releases of vLLM made themselves, held against the engine.

`tests/data/vllm/releases.json` has spec documents and cases; its README says where they came from
and what the short keys mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.documents.document import Document
from kvplan.engines.layout import Plan
from kvplan.engines.request import Request
from kvplan.engines.vllm import VllmEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec

FILE = Path(__file__).parents[3] / "tests" / "data" / "vllm" / "releases.json"

# Codes of which only the verdict is compared: faults of a release and of its libraries.
VERDICT_ONLY = ("other", "config-not-readable", "release-bug-assert")


class Case(NamedTuple):
    """One recorded start: the release, the model, the flags, and what came of it."""

    release: str
    model: str
    kind: str
    given: Mapping[str, Any]
    code: str | None
    plans: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.release} {self.model}|{self.kind}"


@cache
def recorded() -> tuple[dict[str, ModelSpec], tuple[Case, ...]]:
    """The committed specs and cases."""
    data = json.loads(FILE.read_text())
    specs = {
        name: read_spec(Document(data=document, name=name))
        for name, document in data["specs"].items()
    }
    cases = tuple(
        Case(c["v"], c["m"], c["k"], c["in"], c.get("code"), tuple(c.get("plans", ())))
        for c in data["cases"]
    )
    return specs, cases


def request_of(case: Case) -> Request:
    """The request that the recorded flags make."""
    given = {**case.given, **case.given.get("extra", {})}
    ranks = {name: given.pop(name, 1) for name in ("tp", "pp")}
    given.pop("extra", None)
    options = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
    return Request(**ranks, options=options)


def differences(case: Case) -> Iterator[str]:
    """What is not as recorded."""
    spec = recorded()[0][case.model]
    engine = VllmEngine()
    request = engine.settled(request_of(case))
    prepared = engine.prepare(spec, request, case.release)
    if case.code is not None:
        plan = prepared.capacity(40 << 30, request.ctx)
        yield from _codes(case.code, plan)
    for wanted in case.plans:
        plan = prepared.capacity(wanted["a"], request.ctx)
        yield from _codes(wanted.get("code"), plan)
        if plan.extra is not None:
            yield from _figures(wanted, plan)


def _codes(code: str | None, plan: Plan) -> Iterator[str]:
    found = plan.refusal.code if plan.refusal is not None else None
    if (found is None) != (code is None) or (code not in VERDICT_ONLY and found != code):
        yield f"recorded {code}, planned {found}"


def _figures(wanted: Mapping[str, Any], plan: Plan) -> Iterator[str]:
    figures = {
        "b": list(plan.bytes_per_block),
        "r": max(plan.extra.charged_bytes, default=0),
        "n": plan.num_blocks,
        "t": plan.capacity_tokens,
        "c": plan.max_concurrency,
    }
    for key, value in figures.items():
        if wanted.get(key) is not None and wanted[key] != value:
            yield f"{key}: recorded {wanted[key]}, planned {value}"
    if "g" in wanted:
        groups = sorted([g.layers, g.block_size, g.request_blocks] for g in plan.groups)
        recorded_groups = sorted(row[1:] for row in wanted["g"] for _ in range(row[0]))
        if groups != recorded_groups:
            yield f"groups: recorded {recorded_groups}, planned {groups}"
