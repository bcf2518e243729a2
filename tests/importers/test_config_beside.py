"""What stands beside a text config: copies that contradict it, and keys that shape the cache."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from tests.importers.config_cases import llama

KNOWN: dict[str, Any] = {"model_type": "llava", "text_config": llama()}
UNKNOWN: dict[str, Any] = {"model_type": "zephyrine_vl", "text_config": llama()}


@pytest.mark.parametrize("wrapper", [KNOWN, UNKNOWN])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("cross_attention_layers", [3, 8]),
        ("token_mixer", "hyena"),
        ("memory_config", {"slots": 64}),
        ("layer_types", ["linear_attention"] * 32),
        ("sliding_window", 4096),
    ],
)
def test_keys_of_the_cache(wrapper: dict[str, Any], key: str, value: Any) -> None:
    """A key of the cache beside the text config is refused, whether the wrapper is known or not."""
    assert len(import_config(wrapper).spec.layers) == 32
    with pytest.raises(ImportRefused, match=f"{key}"):
        import_config({**wrapper, key: value})


@pytest.mark.parametrize("wrapper", [KNOWN, UNKNOWN])
@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("num_hidden_layers", 80, 32),
        ("n_layer", 80, 32),
        ("num_key_value_heads", 4, 8),
        ("num_attention_heads", 64, 32),
    ],
)
def test_copies_contradict(wrapper: dict[str, Any], key: str, value: int, found: int) -> None:
    """A copy of a count beside the text config must be the text config's."""
    assert import_config({**wrapper, key: found}).spec == import_config(wrapper).spec
    with pytest.raises(ImportRefused, match=rf"{key} is {value}, .* has {found} .* contradict"):
        import_config({**wrapper, key: value})


@pytest.mark.parametrize("wrapper", [KNOWN, UNKNOWN])
def test_two_text_configs(wrapper: dict[str, Any]) -> None:
    """Two text configs with other numbers of layers contradict each other; equal ones do not."""
    twice = {**wrapper, "llm_config": llama()}
    assert import_config(twice).spec == import_config(wrapper).spec
    twice["llm_config"] = llama(num_hidden_layers=16)
    with pytest.raises(ImportRefused, match=r"llm_config.num_hidden_layers is 16, .* has 32"):
        import_config(twice)


def test_text_config_in_a_text_config() -> None:
    """The inner one counts, and the outer one must not say otherwise."""
    inner = llama(num_hidden_layers=16)
    with pytest.raises(ImportRefused, match=r"text_config.num_hidden_layers is 32, .* has 16"):
        import_config({"model_type": "llava", "text_config": {**llama(), "text_config": inner}})


def test_towers_are_no_matter() -> None:
    """Windows, pooling and layers of towers stand beside a text model without harm."""
    tower = {"window_size": 7, "num_hidden_layers": 27, "num_attention_heads": 16}
    for wrapper in (KNOWN, UNKNOWN):
        found = import_config({**wrapper, "vision_config": tower, "image_token_index": 5})
        assert found.spec == import_config(wrapper).spec
    known = {**KNOWN, "downsample_ratio": 0.5, "spatial_pool_mode": "average", "head_dim": 72}
    assert import_config(known).spec == import_config(KNOWN).spec
