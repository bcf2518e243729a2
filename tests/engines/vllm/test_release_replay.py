"""What each release of vLLM itself planned, replayed: verdict, code, blocks, bytes, groups."""

from __future__ import annotations

import pytest

from kvplan.engines.vllm.facts.versions import DRIVEN_RELEASES
from tests.engines.vllm.releases import differences, recorded

RELEASES = [release for release in DRIVEN_RELEASES if release != "0.33.0"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_plans_as_recorded(release: str) -> None:
    """Every committed case of one release."""
    cases = [case for case in recorded()[1] if case.release == release]
    wrong = {case.name: found for case in cases if (found := list(differences(case)))}
    assert len(cases) > 90
    assert wrong == {}
