"""Every model of the catalogue on every listed release: an answer, and no false one."""

from __future__ import annotations

from pathlib import Path

from kvplan.engines.request import Request
from kvplan.engines.vllm import VllmEngine
from kvplan.engines.vllm.facts.classes import class_named
from kvplan.engines.vllm.facts.versions import SAME_PLANNING, VERSIONS
from kvplan.load import load_model

FOLDER = Path(__file__).parents[3] / "model_specs"


def test_no_release_serves_a_model_without_its_class() -> None:
    """40 GiB and 2,048 tokens: no traceback, and fits only where the release has the class.

    Patches that plan with another release's code are left to that release.
    """
    own = [version for version in VERSIONS if version not in SAME_PLANNING]
    engine, request, false = VllmEngine(), Request(), []
    for path in sorted(FOLDER.glob("*.yaml")):
        spec = load_model(str(path)).spec
        row = class_named(spec.architecture)
        for version in own:
            plan = engine.prepare(spec, request, version).capacity(40 << 30, 2048)
            assert plan.fits == (plan.refusal is None)
            if plan.fits and row is not None and not row.is_in(version):
                false.append((spec.name, version))
    assert false == []
