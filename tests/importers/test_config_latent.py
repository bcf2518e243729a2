"""Families that keep a latent, and the draft layers they bring."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.states import CompressedLatent, FullAttention, Indexer, LatentAttention
from tests.importers.config_cases import llama

MLA: dict[str, Any] = {
    "num_attention_heads": 128, "num_key_value_heads": 128, "hidden_size": 7168,
    "num_hidden_layers": 61, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "max_position_embeddings": 163840,
}  # fmt: skip
LATENT = LatentAttention(
    kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
)


def test_deepseek_v3() -> None:
    """61 latents of 512 + 64 and one draft layer; the 128 KV heads of the file mean nothing."""
    spec = import_config(llama(model_type="deepseek_v3", num_nextn_predict_layers=1, **MLA)).spec
    assert spec.layers == ("attention",) * 61
    assert spec.draft_layers == ("attention",)
    assert spec.kinds == {"attention": (LATENT,)}


def test_head_dim_of_the_file_is_not_cached() -> None:
    """GLM 5.1 says head_dim 64, GLM 5.2 says 192; both cache 512 + 64."""
    for head_dim in (64, 192):
        config = llama(model_type="glm4_moe_lite", head_dim=head_dim, **MLA)
        assert import_config(config).spec.kinds == {"attention": (LATENT,)}


def test_latent_switched_off() -> None:
    """DeepSeek VL2 Tiny: kv_lora_rank null and use_mla false is plain attention."""
    text = llama(
        model_type="deepseek_v2", use_mla=False, kv_lora_rank=None, q_lora_rank=None,
        qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0, hidden_size=1280,
        num_attention_heads=10, num_key_value_heads=10,
    )  # fmt: skip
    spec = import_config({"model_type": "deepseek_vl_v2", "language_config": text}).spec
    assert spec.kinds == {"attention": (FullAttention(kv_heads=10, head_dim=128),)}


def test_indexer_everywhere() -> None:
    """DeepSeek V3.2: a latent and an indexer key on every layer, drafts included."""
    config = llama(model_type="deepseek_v32", index_head_dim=128, index_n_heads=64,
                   index_topk=2048, num_nextn_predict_layers=1, **MLA)  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds == {"attention": (LATENT, Indexer(head_dim=128))}
    assert spec.draft_layers == ("attention",)


def test_indexer_shared() -> None:
    """GLM 5.2: 21 of 78 layers own an indexer, from the list or from the frequency."""
    base = {**MLA, "num_hidden_layers": 78, "index_head_dim": 128}
    types = ["full" if max(i - 2, 0) % 4 == 0 else "shared" for i in range(78)]
    listed = import_config(llama(model_type="glm_moe_dsa", indexer_types=types, **base)).spec
    owners = [i for i, name in enumerate(listed.layers) if name == "latent_indexed"]
    assert owners[:5] == [0, 1, 2, 6, 10]
    assert len(owners) == 21
    derived = llama(model_type="glm_moe_dsa", index_topk_freq=4, index_skip_topk_offset=3, **base)
    assert import_config(derived).spec.layers == listed.layers


def test_longcat_has_two_blocks() -> None:
    """LongCat Flash: two latents in each of 28 layers; a draft layer has one."""
    config = llama(model_type="longcat_flash", num_layers=28, num_nextn_predict_layers=1,
                   **{**MLA, "num_hidden_layers": 28})  # fmt: skip
    spec = import_config(config).spec
    assert spec.kinds == {"attention": (LATENT, LATENT), "mtp": (LATENT,)}
    assert spec.draft_layers == ("mtp",)


def deepseek_v4(ratios: list[int], **changes: Any) -> dict[str, Any]:
    """DeepSeek V4 with four layers."""
    return llama(
        model_type="deepseek_v4", num_hidden_layers=4, num_attention_heads=64,
        num_key_value_heads=1, head_dim=512, qk_rope_head_dim=64, sliding_window=128,
        index_head_dim=128, num_nextn_predict_layers=1, compress_ratios=ratios, **changes,
    )  # fmt: skip


def test_deepseek_v4() -> None:
    """A window everywhere, compressed beyond it, an indexer at ratio 4; entry 5 is the draft."""
    spec = import_config(deepseek_v4([0, 4, 128, 4, 0])).spec
    assert spec.layers == ("window", "compressed_4", "compressed_128", "compressed_4")
    assert spec.draft_layers == ("window",)
    assert spec.kinds["window"] == (CompressedLatent(head_dim=512, window=128),)
    assert spec.kinds["compressed_4"] == (
        CompressedLatent(head_dim=512, window=128, ratio=4),
        Indexer(head_dim=128, ratio=4),
    )
    assert spec.kinds["compressed_128"] == (CompressedLatent(head_dim=512, window=128, ratio=128),)


def test_deepseek_v4_contradictions() -> None:
    """Too few ratios, ratios beyond the draft layers, and KV heads other than one are refused."""
    with pytest.raises(ImportRefused, match="3 entries for 4 layers"):
        import_config(deepseek_v4([0, 4, 128]))
    with pytest.raises(ImportRefused, match="6 entries for 4 layers"):
        import_config(deepseek_v4([0, 4, 128, 4, 0, 4]))
    with pytest.raises(ImportRefused, match="is not 1"):
        import_config({**deepseek_v4([0, 4, 4, 4]), "num_key_value_heads": 2})


def test_draft_layers_are_bounded() -> None:
    """A count of draft layers that no model has is refused before anything of its size is made."""
    config = {**deepseek_v4([0, 4, 128, 4, 0]), "num_nextn_predict_layers": 2**31}
    with pytest.raises(ImportRefused, match="num_nextn_predict_layers is 2147483648"):
        import_config(config)


def test_indexer_pattern_is_letters() -> None:
    """A number where the letters of the indexer layers should stand is refused."""
    config = llama(model_type="glm_moe_dsa", index_head_dim=128, index_topk=2048, **MLA)
    with pytest.raises(ImportRefused, match="index_topk_pattern is 5"):
        import_config({**config, "index_topk_pattern": 5})


@pytest.mark.parametrize("rank", [None, 0])
def test_no_latent_that_is_not_switched_off(rank: int | None) -> None:
    """kv_lora_rank null or 0 without use_mla false is an error, not plain attention."""
    config = llama(model_type="deepseek_v2", **{**MLA, "kv_lora_rank": rank})
    with pytest.raises(ImportRefused, match=f"kv_lora_rank is {'null' if rank is None else 0}"):
        import_config(config)
