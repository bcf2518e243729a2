"""vLLM's budget against what public start-ups printed: coverage, width, error, verdicts."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kvplan.budget.vllm.budget import Budget, make_budget
from kvplan.budget.vllm.conditions import Conditions
from kvplan.budget.weights import Split, weights_of_rank
from kvplan.estimate import Estimate, exactly
from kvplan.hardware.device import Device, plain_device
from kvplan.hardware.names import find_device
from kvplan.load import load_model
from kvplan.spec.model import ModelSpec
from kvplan.units import GIB

DATA = Path(__file__).parent.parent / "data" / "budget" / "vllm.json"
ROUNDING = 0.01 * GIB  # logs print two decimals


class Start(NamedTuple):
    """One start-up: what was printed, and the budget."""

    row: dict[str, Any]
    given: Conditions
    weights: Estimate
    budget: Budget

    @property
    def printed(self) -> float:
        return float(self.row["available_gib"]) * GIB

    @property
    def inside(self) -> bool:
        found = self.budget.available
        return found.low - ROUNDING <= self.printed <= found.high + ROUNDING


@cache
def starts(by_name: bool = False) -> list[Start]:
    """Every row; `by_name` forgets the printed total and takes the device's."""
    return [start(row, by_name) for row in json.loads(DATA.read_text())]


@cache
def spec_of(name: str) -> ModelSpec:
    return load_model(name).spec


def start(row: dict[str, Any], by_name: bool) -> Start:
    spec = spec_of(row["spec"])
    device = device_of(row)
    total = device.total()
    assert total is not None
    large = total.mid >= 70 * GIB and "a100" not in device.name and device.name != "gb10"
    match = re.match(r"(\d+)\.(\d+)", row["version"])
    assert match
    given = Conditions(
        version=(int(match[1]), int(match[2])),
        spec=spec,
        device=device,
        tp=row["tp"],
        pp=row["pp"],
        sequences=row["max_num_seqs"] or (1024 if large else 256),
        tokens=row["max_num_batched_tokens"] or (8192 if large else 2048),
        eager=row["eager"],
        images=row["images"],
        pooling=row["pooling"],
        element_bytes=4 if row["float32"] else 2,
    )
    quantisation = row["quantisation"]
    weights = weights_of_rank(
        spec,
        Split(row["tp"], row["pp"], row["expert_ranks"]),
        named=f"x-{quantisation}" if quantisation != "none" else spec.name,
        flag="none" if quantisation == "none" else None,
        dtype="float32" if row["float32"] else "auto",
    )
    assert weights is not None
    printed = exactly(round(row["total_gib"] * GIB), "printed")
    budget = make_budget(
        given,
        total=total if by_name else printed,
        fraction=row["fraction"],
        fraction_origin="flag",
        weights=weights,
    )
    return Start(row, given, weights, budget)


def device_of(row: dict[str, Any]) -> Device:
    if row["device"]:
        return find_device(row["device"]).device
    unknown = plain_device(round(row["total_gib"] * GIB), "printed")
    return unknown._replace(vendor=row["vendor"])


def test_the_available_memory_lies_in_the_interval() -> None:
    """Given the total at least 95 % of 84 start-ups; from the device's name alone 90 %."""
    told, named = starts(), starts(by_name=True)

    assert len(told) == 84
    assert sum(one.inside for one in told) / len(told) >= 0.95
    assert sum(one.inside for one in named) / len(named) >= 0.90


def test_text_models_of_known_releases_are_narrow() -> None:
    """0.17 to 0.25: a median width of at most 1 GiB, the middle off by at most 0.1 GiB."""
    known = [
        one for one in starts()
        if (0, 17) <= one.given.version < (0, 26) and not one.given.multimodal
        and not one.given.uncertain
    ]  # fmt: skip
    found = [one.budget.available for one in known]

    assert len(known) >= 35
    assert all(one.inside for one in known)
    assert median(one.high - one.low for one in found) <= GIB
    errors = [abs(one.budget.available.mid - one.printed) for one in known]
    assert median(errors) <= 0.1 * GIB


def test_no_verdict_is_wrong() -> None:
    """A need of 25 to 90 % of the printed memory never "does not fit", 110 to 200 % never fits."""
    wrong = []
    for one in starts():
        found = one.budget.available
        for percent in (25, 50, 75, 90, 110, 125, 150, 200):
            need = one.printed * percent / 100
            fits, not_fits = need <= found.low, need > found.high
            if one.given.uncertain:
                continue  # always "only if"
            if (percent > 100 and fits) or (percent < 100 and not_fits):
                wrong.append((one.row["id"], percent))

    assert wrong == []


def test_weights_are_within_the_errors_of_their_kind() -> None:
    """Text in 16 bit 1.3 % at most, 8 bit 1.5 % in the median, each inside its bounds."""
    errors: dict[str, list[float]] = {}
    for one in starts():
        printed = one.row["weights_gib"]
        if printed is None or one.given.multimodal:
            continue
        errors.setdefault(one.row["quantisation"], []).append(
            abs(one.weights.mid / GIB / printed - 1)
        )
        if one.row["expert_ranks"] == 1:
            assert one.weights.low <= printed * GIB + ROUNDING, one.row["id"]
            assert printed * GIB - ROUNDING <= one.weights.high, one.row["id"]

    assert max(errors["none"]) <= 0.013
    assert median(errors["none"]) <= 0.004
    assert median(errors["fp8"]) <= 0.004
    assert median(errors["int8"]) <= 0.008
    assert max(errors["mxfp4"]) <= 0.02


def test_a_line_that_is_known_replaces_its_estimate() -> None:
    """With every line given nothing is left to estimate: 79.19 x 0.95 - 15 - 2 - 0.25 GiB."""
    one = next(start for start in starts() if start.row["id"] == "B016")
    known = {
        "weights": exactly(15 * GIB, "given"),
        "activations": exactly(2 * GIB, "given"),
        "non_torch": exactly(GIB // 4, "given"),
    }
    budget = make_budget(
        one.given, total=exactly(round(79.19 * GIB), "log"), fraction=0.95,
        fraction_origin="flag", weights=one.weights, known=known,
    )  # fmt: skip
    found = budget.available

    assert found.exact
    assert abs(found.mid - (79.19 * 0.95 - 17.25) * GIB) < 2
