"""JUnit XML, which CI systems show as tests: a suite per rank, a test per check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from kvplan.printable import visible
from kvplan.report.verification import model_name

if TYPE_CHECKING:
    from kvplan.checks import Check, Verification


def verify(found: Verification, *, to_file: bool) -> str:
    """`kvplan verify --format junit`."""
    title = f"kvplan verify {model_name(found)}"
    suites = [(f"{title}, all ranks" if len(found.ranks) > 1 else title, found.checks)]
    if len(found.ranks) > 1:
        suites += [(f"{title}, rank {report.rank}", report.checks) for report in found.ranks]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for name, checks in suites:
        lines += _suite(name, checks)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(name: str, checks: Sequence[Check]) -> list[str]:
    failed = sum(check.ok is False for check in checks)
    skipped = sum(check.ok is None for check in checks)
    lines = [
        f'  <testsuite name={_quoted(name)} tests="{len(checks)}" failures="{failed}"'
        f' errors="0" skipped="{skipped}">'
    ]
    for check in checks:
        lines += _case(name, check)
    return [*lines, "  </testsuite>"]


def _case(suite: str, check: Check) -> list[str]:
    figures = (
        f"predicted {check.predicted}, measured {check.measured}, difference {check.difference}"
        f" (tolerance {check.tolerance}) {check.unit}".rstrip()
    )
    inside = {
        True: f"<system-out>{_text(f'{figures}: {check.why}')}</system-out>",
        False: f"<failure message={_quoted(figures)}>{_text(check.why)}</failure>",
        None: f"<skipped message={_quoted(f'{figures}: {check.why}')}/>",
    }[check.ok]
    return [
        f"    <testcase classname={_quoted(suite)} name={_quoted(check.name)}>",
        f"      {inside}",
        "    </testcase>",
    ]


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))


def _text(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    """XML 1.0 has no control characters but tab and the line ends, and no half characters."""
    text = "".join("?" if c in "\ufffe\uffff" or "\ud800" <= c <= "\udfff" else c for c in text)
    return visible(text)
