"""Rules of the GGUF importer at counts that no published file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.gguf import import_gguf
from tests.importers.gguf_writer import write_gguf

HEADS = {
    "block_count": 9,
    "context_length": 32768,
    "embedding_length": 1024,
    "attention.head_count": 16,
    "attention.head_count_kv": 4,
    "attention.key_length": 128,
    "attention.value_length": 128,
    "attention.sliding_window": 512,
}


def imported(tmp_path: Path, architecture: str, **changes: Any) -> Any:
    """The spec of a header of this architecture, with some keys changed."""
    keys = {**HEADS, **{key.replace("__", "."): value for key, value in changes.items()}}
    metadata = {"general.architecture": architecture}
    metadata |= {f"{architecture}.{key}": value for key, value in keys.items()}
    return import_gguf(write_gguf(tmp_path / "model-Q4_K_M.gguf", metadata)).spec


def test_a_period_ends_with_the_model_and_draft_layers_are_full(tmp_path: Path) -> None:
    """Of nine blocks the last two draft; of the seven others every fourth is full: block 3.

    A period that ran on over the draft layers would make block 8 a window.
    """
    spec = imported(tmp_path, "exaone-moe", nextn_predict_layers=2)

    assert [index for index, name in enumerate(spec.layers) if "full" in name] == [3]
    assert len(spec.layers) == 7
    assert all("full" in name for name in spec.draft_layers)
    assert len(spec.draft_layers) == 2


@pytest.mark.parametrize("key", ["block_count", "attention__head_count", "attention__key_length"])
def test_a_count_is_not_negative(tmp_path: Path, key: str) -> None:
    """A signed number below zero is refused by its key."""
    with pytest.raises(ImportRefused, match=key.replace("__", r"\.")):
        imported(tmp_path, "exaone-moe", **{key: -4})
