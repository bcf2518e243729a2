"""The model agrees with real allocators: every figure, after every operation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.allocator.replay import load, replay, row

GOLDEN = load("allocator_golden.json")
RECORDED = load("allocator_recorded.json")


def _cases(data: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(
            data, case, version, id="-".join([version, case["sequence"], case["conf"], str(number)])
        )
        for number, case in enumerate(data["cases"])
        for version in case["torch"]
    ]


def test_the_golden_file_holds_all_78_sequences() -> None:
    """39 sequences, each seen alike in torch 2.6 and 2.9."""
    assert sum(len(case["torch"]) for case in GOLDEN["cases"]) == 78


@pytest.mark.parametrize(("data", "case", "version"), _cases(GOLDEN) + _cases(RECORDED))
def test_every_figure_after_every_operation(
    data: dict[str, Any], case: dict[str, Any], version: str
) -> None:
    """No column differs after any operation, out-of-memory refusals included."""
    operations = data["sequences"][case["sequence"]]

    steps = replay(case, operations, version)
    rows = [row(failed, allocator, data["columns"]) for failed, allocator in steps]

    assert rows == case["rows"]
