"""Whole runs of vLLM 0.33.0's own scheduler, step for step; see tests/data/replay/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.replay.arrivals import Arrivals
from kvplan.replay.cache import BlockCache
from kvplan.replay.facts import Facts, Group
from kvplan.replay.generated import Generated
from kvplan.replay.meters import Meters
from kvplan.replay.walk import Walk

DATA = Path(__file__).resolve().parent.parent / "data" / "replay" / "records.json"
RECORDS = json.loads(DATA.read_text(encoding="utf-8"))["records"]


def facts_of(record: dict[str, Any]) -> Facts:
    """The deployment of a record."""
    groups = tuple(Group(**group) for group in record["groups"])
    return Facts(groups=groups, **record["facts"])


def trace_of(record: dict[str, Any]) -> Generated:
    """The requests of a record."""
    return Generated(**record["trace"])


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"])
def test_every_step_is_the_releases_own(record: dict[str, Any]) -> None:
    """Clock, running, waiting, used blocks and tokens of every step, and when each one finished."""
    facts, trace, meters = facts_of(record), trace_of(record), Meters()
    arrivals = Arrivals(trace.rows(), **record["arrive"])

    stuck = Walk(facts, BlockCache(facts, trace.unit), arrivals, meters).run()

    assert (stuck is not None) is record["stuck"]
    assert {name: getattr(meters, name) for name in record["expected"]} == record["expected"]
    assert meters.wait_steps.summary() == record["wait_steps"]
    assert meters.line.every == record["line_every"]
    assert list(meters.line.points[-1]) == record["line_end"]
