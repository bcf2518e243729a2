"""The reports of `verify`: the page, JSON by the contract, rows, and JUnit."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from io import StringIO

import pytest

from kvplan.checks import (
    Check,
    RankReport,
    Verification,
    compare,
    over_ranks,
    undecided,
)
from kvplan.engines.logical_engine import LogicalEngine
from kvplan.plan.size import size
from kvplan.report import as_csv, as_json, as_junit, as_markdown, as_table
from kvplan.report.rows import rows

DEVICE = {"type": "cpu", "name": "x", "torch": "2.13.0", "free_bytes": 3 << 30}
GOOD = compare("tensor_bytes", 1000, 1000, "two tensors")
BAD = compare("resident_bytes", 4096, 8192, "one page <too> many & more")
OPEN = undecided("memory_reserved", "nothing predicts it", measured=7)


def found(*ranks: tuple[Check, ...], notes: tuple[str, ...] = ()) -> Verification:
    planned = size("llama3-8b", ctx=100)
    reports = tuple(
        RankReport(rank=i, device=DEVICE, checks=checks) for i, checks in enumerate(ranks)
    )
    return Verification(
        size=planned,
        layout=LogicalEngine().layout(planned.model.spec, planned.request),
        device=DEVICE,
        checks=over_ranks(reports),
        ranks=reports,
        notes=notes,
    )


def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was laid out where, a line per check, and what did not agree with its reason."""
    monkeypatch.setenv("COLUMNS", "120")
    assert (
        as_table.verify(found((GOOD, BAD, OPEN), notes=("smaller",)), to_file=True)
        == """\
llama3-8b: gqa; 100 tokens x 1 sequence, bfloat16
layout  logical: 64 tensors, 12.50 MiB (13,107,200 bytes)
device  cpu: x, torch 2.13.0, 3.00 GiB free before
note: smaller

check            predicted  measured  difference  tolerance          what it is
tensor_bytes         1,000     1,000           0          0  ok      two tensors
resident_bytes       4,096     8,192       4,096          0  FAILED  one page <too> many & more
memory_reserved          -         7           -          -  ?       nothing predicts it

resident_bytes: one page <too> many & more

memory_reserved: nothing predicts it

does not agree: 1 of 3 checks, 1 failed, 1 could not be decided
"""
    )


def test_agreement_names_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that could not be decided is no agreement and no failure."""
    monkeypatch.setenv("COLUMNS", "120")

    assert "\nagrees: 1 of 1 checks\n" in as_table.verify(found((GOOD,)), to_file=True)
    page = as_table.verify(found((GOOD, OPEN)), to_file=True)
    assert "\nagrees as far as can be told: 1 of 2 checks, 1 could not be decided\n" in page


def test_ranks_have_lines_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank's checks, then the sums."""
    monkeypatch.setenv("COLUMNS", "120")
    page = as_table.verify(found((GOOD,), (GOOD,)), to_file=True)

    assert "   0  tensor_bytes      1,000     1,000           0          0  ok" in page
    assert "   1  tensor_bytes      1,000     1,000           0          0  ok" in page
    assert (
        "tensor_bytes      2,000     2,000           0          0  ok  2 ranks: two tensors" in page
    )


def test_a_narrow_terminal_keeps_figures_and_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reasons move below the table."""
    monkeypatch.setenv("COLUMNS", "72")
    page = as_table.verify(found((GOOD, BAD)), to_file=True)

    assert max(map(len, page.splitlines())) <= 72
    assert "FAILED" in page
    assert "tensor_bytes: two tensors" in page


def test_json() -> None:
    """The contract's names; open checks are null; integers stay integers."""
    facts = json.loads(as_json.verify(found((GOOD, BAD, OPEN)), to_file=False))

    assert facts["schema"] == "kvplan.verify/1"
    assert facts["device"]["type"] == "cpu"
    assert facts["ok"] is False
    assert [check["ok"] for check in facts["checks"]] == [True, False, None]
    assert facts["checks"][1] == {
        "name": "resident_bytes", "predicted": 4096, "measured": 8192, "difference": 4096,
        "tolerance": 0, "unit": "B", "ok": False, "why": "one page <too> many & more",
    }  # fmt: skip
    assert facts["layout"]["engine"] == "logical"
    assert facts["layout"]["bytes"] == 13_107_200
    assert len(facts["layout"]["per_rank"][0]["tensors"]) == 64
    assert facts["request"]["ctx"] == 100


def test_rows() -> None:
    """One per check and rank, then one per sum; a missing figure is empty."""
    text = as_csv.dump(rows("verify", found((GOOD, OPEN), (GOOD, OPEN))))
    lines = list(csv.DictReader(StringIO(text)))

    assert [(row["rank"], row["name"], row["ok"]) for row in lines] == [
        ("0", "tensor_bytes", "true"), ("0", "memory_reserved", ""),
        ("1", "tensor_bytes", "true"), ("1", "memory_reserved", ""),
        ("all", "tensor_bytes", "true"), ("all", "memory_reserved", ""),
    ]  # fmt: skip
    assert as_markdown.dump(rows("verify", found((GOOD,)))).count("\n") == 3


def test_junit() -> None:
    """A failure for what failed, skipped for what is open; special characters survive."""
    root = ET.fromstring(as_junit.verify(found((GOOD, BAD, OPEN)), to_file=False))
    (suite,) = root
    cases = {case.get("name"): case for case in suite}

    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert cases["tensor_bytes"].find("failure") is None
    failure = cases["resident_bytes"].find("failure")
    assert failure is not None
    assert failure.text == "one page <too> many & more"
    assert cases["memory_reserved"].find("skipped") is not None


def test_junit_of_several_ranks() -> None:
    """A suite for all and one for each."""
    root = ET.fromstring(as_junit.verify(found((GOOD,), (BAD,)), to_file=False))

    assert [suite.get("name") for suite in root] == [
        "kvplan verify llama3-8b, all ranks",
        "kvplan verify llama3-8b, rank 0",
        "kvplan verify llama3-8b, rank 1",
    ]


def test_control_characters_do_not_break_the_xml() -> None:
    """An engine's message may hold anything."""
    odd = compare("x", 1, 2, 'a\x00b\x1b "quoted" <tag>')
    root = ET.fromstring(as_junit.verify(found((odd,)), to_file=False))

    assert root[0][0][0].text == 'a\\x00b\\x1b "quoted" <tag>'


def test_a_running_engine_without_a_model() -> None:
    """Nothing was laid out, and the model is not known: every format still prints."""
    running = Verification(
        size=None,
        layout=None,
        device={"kind": "running engine", "engine": "vllm", "version": "0.11.0", "source": "log"},
        checks=(GOOD,),
    )

    assert "running engine  vllm 0.11.0, from log" in as_table.verify(running, to_file=True)
    assert json.loads(as_json.verify(running, to_file=False))["model"] is None
    assert as_csv.dump(rows("verify", running)).splitlines()[1].startswith(",,all,tensor_bytes")
    assert ET.fromstring(as_junit.verify(running, to_file=False))[0].get("tests") == "1"
