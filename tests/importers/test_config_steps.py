"""Rules of the config importer at counts that no published model has: odd, negative, uneven."""

from __future__ import annotations

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from tests.importers.config_cases import llama


@pytest.mark.parametrize(
    ("layers", "full"), [(10, [1, 5, 9]), (11, [2, 6, 10]), (12, [3, 7, 11]), (3, [2])]
)
def test_every_fourth_layer_is_counted_from_the_last(layers: int, full: list[int]) -> None:
    """The last layer is full whether or not 4 divides their number."""
    config = llama(
        model_type="muse_glimmer_text", num_hidden_layers=layers, head_dim=128, sliding_window=512
    )
    spec = import_config(config).spec

    assert [index for index, name in enumerate(spec.layers) if name == "full"] == full


@pytest.mark.parametrize("model_type", ["cohere", "cohere2"])
def test_command_r_is_longer_than_its_position_table(model_type: str) -> None:
    """model_max_length is the model's own; the table of positions is shorter."""
    windows = {"sliding_window": 4096, "sliding_window_pattern": 4}
    config = llama(
        model_type=model_type, max_position_embeddings=8192, model_max_length=131072,
        **(windows if model_type == "cohere2" else {}),
    )  # fmt: skip

    assert import_config(config).spec.max_context == 131072


def test_others_are_as_long_as_the_shorter_of_two_bounds() -> None:
    """Outside that family the smallest bound on positions holds."""
    config = llama(max_position_embeddings=8192, max_sequence_length=4096)

    assert import_config(config).spec.max_context == 4096


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
)
def test_a_count_is_not_negative(key: str) -> None:
    """The refusal names the key and its value."""
    with pytest.raises(ImportRefused, match=rf"{key}.*-8"):
        import_config(llama(**{key: -8}))


@pytest.mark.parametrize(
    ("words", "kind"), [(["full_attention"], "full"), (["sliding_attention"], "sliding")]
)
def test_the_draft_layer_of_mellum_is_of_the_listed_kind(words: list[str], kind: str) -> None:
    """mtp_layer_types names it; the layers of the model say nothing about it."""
    config = llama(
        model_type="mellum",
        num_hidden_layers=4,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        sliding_window=512,
        head_dim=128,
        num_nextn_predict_layers=1,
        mtp_layer_types=words,
    )

    assert import_config(config).spec.draft_layers == (kind,)
