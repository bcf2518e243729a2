"""The tables behind the importer: class defaults, plain types, families."""

from __future__ import annotations

from kvplan.importers.config import families
from kvplan.importers.config.defaults import class_defaults


def test_a_type_is_plain_or_has_a_family() -> None:
    """No model type stands in both tables, where one would hide the other."""
    assert families.reader("gemma2") is not None  # opens the rooms
    assert not families.PLAIN & set(families.FAMILIES)


def test_unknown_types_have_no_reader() -> None:
    """Nothing reads a type that is in neither table, nor a file that names none."""
    assert families.reader("zephyrine") is None
    assert families.reader(None) is None


def test_defaults_of_gemma_3() -> None:
    """Counts hold inside a wrapper only, what shapes the layers holds everywhere."""
    gemma = class_defaults("gemma3_text")
    assert gemma is not None
    assert gemma.source == "transformers 5.24.0 Gemma3TextConfig"
    assert gemma.value("num_attention_heads", nested=True) == 8
    assert gemma.value("num_attention_heads", nested=False) is None
    assert gemma.value("sliding_window_pattern", nested=False) == 6
    assert gemma.value("head_dim", nested=False) == 256
    assert gemma.mha is None


def test_rule_of_missing_kv_heads() -> None:
    """Llama has one KV head per query head unless told otherwise; Mistral names a number."""
    llama, mistral, phi = map(class_defaults, ("llama", "mistral", "phi-msft"))
    assert llama is not None
    assert llama.mha is not None
    assert not llama.mha.null
    assert mistral is not None
    assert mistral.mha is None
    assert phi is not None
    assert phi.mha is not None
    assert phi.mha.null
    assert class_defaults("zephyrine") is None
    assert class_defaults(None) is None
