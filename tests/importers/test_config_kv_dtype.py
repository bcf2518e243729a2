"""What a quantised checkpoint says about the format of its cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.importers.config import import_config
from tests.importers.config_cases import llama


@pytest.mark.parametrize(
    ("quantisation", "method", "cache"),
    [
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "modelopt", "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}, "modelopt", "nvfp4"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": None}, "modelopt", None),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, None, "fp8_e4m3"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, None, "int8"),
        ({"kv_cache_scheme": None}, None, None),
    ],
)
def test_declared(quantisation: dict[str, Any], method: str | None, cache: str | None) -> None:
    """kv_cache_quant_algo and kv_cache_scheme name the format; the config's dtype stays."""
    spec = import_config(llama(quantization_config=quantisation)).spec
    assert (spec.quant_method, spec.kv_dtype, spec.dtype) == (method, cache, "bfloat16")


def test_unknown_scheme_is_said() -> None:
    """A scheme that is not known is a warning, never a guess."""
    found = import_config(llama(quantization_config={"kv_cache_scheme": {"num_bits": 3}}))
    assert found.spec.kv_dtype is None
    assert [warning.id for warning in found.warnings] == ["unknown-kv-scheme"]


@pytest.mark.parametrize("type_", [[], {}, 8, None])
def test_scheme_of_another_type(type_: Any) -> None:
    """A scheme whose type is no text is an unknown scheme, not an accident."""
    scheme = {"num_bits": 8, "type": type_}
    found = import_config(llama(quantization_config={"kv_cache_scheme": scheme}))
    assert found.spec.kv_dtype is None
    assert [warning.id for warning in found.warnings] == ["unknown-kv-scheme"]


def test_hf_quant_config_beside(tmp_path) -> None:
    """A folder's hf_quant_config.json counts, and is named as the source."""
    (tmp_path / "config.json").write_text(json.dumps(llama()))
    beside = {"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    found = import_config(tmp_path)
    assert found.spec.kv_dtype == "fp8_e4m3"
    origin = next(fact.origin for fact in found.facts if fact.field == "kv_dtype")
    assert origin == "hf_quant_config.json quantization.kv_cache_quant_algo"
