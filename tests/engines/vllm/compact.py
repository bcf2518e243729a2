"""Write `tests/data/vllm/plans.json` from the recorded cases beside the repository.

    python -m tests.engines.vllm.compact

Configs become spec documents through the importer; inputs keep what differs from the defaults;
outputs keep what is compared. Cases that vLLM could not read for reasons outside its planning
(remote code, missing classes) are left out.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from kvplan.importers.config import import_config
from kvplan.spec.writer import write_spec
from tests.engines.vllm.replay import (
    COMMITTED,
    COMPARED,
    DEFAULTS,
    Case,
    packed_groups,
    shared_cases,
)
from tests.evidence import TRUTH

_REFUSAL = (
    "code", "exception", "needed_gib_printed", "available_gib_printed", "longest_printed",
)  # fmt: skip
_KINDS = (None, "refused", "architecture removed from vLLM")


def compact() -> dict[str, Any]:
    """The committed form of all cases."""
    configs = json.loads((TRUTH / "vllm_configs.json").read_text())
    specs: dict[str, Any] = {}
    cases = []
    for case in shared_cases():
        if case.output.get("kind") not in _KINDS:
            continue
        if case.model not in specs:
            spec = import_config(configs[case.model]["config"], name=case.model).spec
            specs[case.model] = yaml.safe_load(write_spec(spec))
        cases.append({"id": case.id, "model": case.model, "in": _input(case), "out": _output(case)})
    return {
        "about": "plans of vllm 0.33.0's own planning code, run with a stand-in GPU",
        "specs": specs,
        "cases": cases,
    }


def _input(case: Case) -> dict[str, Any]:
    plain = {**DEFAULTS, "tp": 1, "pp": 1, "dcp": 1, "kv_cache_dtype": "auto"}
    return {
        key: value
        for key, value in case.input.items()
        if key != "model" and plain.get(key) != value
    }


def _output(case: Case) -> dict[str, Any]:
    if "failed" in case.output:
        return {key: case.output[key] for key in ("failed", *_REFUSAL) if key in case.output}
    found = {key: case.output[key] for key in COMPARED if key in case.output}
    found["groups"] = packed_groups(case.output["group_blocks"])
    return found | {key: case.output[key] for key in _REFUSAL if case.output.get(key) is not None}


def main() -> None:
    """Write the file, one case a line."""
    data = compact()
    lines = [f'{{"about": {json.dumps(data["about"])},', '"specs": {']
    specs = [f"{json.dumps(name)}: {_line(doc)}" for name, doc in data["specs"].items()]
    lines += [",\n".join(specs), "},", '"cases": [']
    lines += [",\n".join(_line(case) for case in data["cases"]), "]}"]
    COMMITTED.parent.mkdir(parents=True, exist_ok=True)
    COMMITTED.write_text("\n".join(lines) + "\n")
    print(f"{len(data['cases'])} cases, {COMMITTED.stat().st_size:,} bytes")


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
