"""Every collected name (`make evidence`): it is its base, or the answer says why it is not."""

from __future__ import annotations

import csv

import pytest

from kvplan.errors import KvplanError
from kvplan.load import load_model
from tests.evidence import FOLDER

# The catalogue has a model of that very name, or a spec for that very copy.
OTHER = {
    "kimi-k2": "the catalogue's own name; RamaLama means the release of September 2025",
    "minimax-m2": "the catalogue's own name; RamaLama means M2.7, with the same layers",
    "devstral": "Ollama and RamaLama mean different models: refused with both",
}


@pytest.mark.evidence
def test_every_collected_name() -> None:
    """Where the base has facts the name is the base; else nothing is answered but that."""
    with (FOLDER / "models" / "NAMES.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    right = unknown = 0
    for row in rows:
        name, base = row["name"], row["base_model"].split(" ")[0]
        if name in OTHER or "/" not in base:
            continue
        try:
            expected = load_model(base).spec
        except KvplanError:
            expected = None
        try:
            found = load_model(name)
        except KvplanError:
            assert expected is None, name
            unknown += 1
            continue
        if expected is None:  # the copy's own config is in the catalogue
            assert name.lower() in map(str.lower, (found.spec.name, *found.spec.hf_ids)), name
            continue
        if found.spec.name != expected.name:  # a quantised copy with a spec of its own
            assert name in found.spec.hf_ids, name
        assert len(found.spec.layers) == len(expected.layers), name
        right += 1
    assert right >= 215
    assert unknown <= 45
