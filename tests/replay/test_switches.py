"""Which rules an older release lacks."""

from __future__ import annotations

import pytest

from kvplan.replay.switches import Switches, switches_of


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("0.33.0", set()),
        ("0.26.0", {"driven"}),
        ("0.25.0", {"driven", "processed_basis", "junctions"}),
        ("0.23.0", {"driven", "processed_basis", "junctions", "has_watermark"}),
        ("0.22.1", {"driven", "processed_basis", "junctions", "has_watermark", "unhashed_first"}),
    ],
)
def test_a_release_lacks_the_rules_of_later_ones(version: str, lacks: set[str]) -> None:
    """Only 0.33.0 was run; windows were not capped before 0.20."""
    found = switches_of(version)

    names = Switches.__dataclass_fields__
    assert {name for name in names if not getattr(found, name)} == lacks
    assert not switches_of("0.19.0").caps_windows
