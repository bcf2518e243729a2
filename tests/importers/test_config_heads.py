"""Families whose heads hide behind keys of their own."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import ImportRefused
from kvplan.importers.config import import_config
from kvplan.spec.states import FullAttention, Indexer, SharedCache
from tests.importers.config_cases import llama


def kept(config: dict[str, Any]) -> FullAttention:
    """The one state that every layer keeps."""
    (states,) = import_config(config).spec.kinds.values()
    (state,) = states
    assert isinstance(state, FullAttention)
    return state


def test_falcon_7b() -> None:
    """multi_query and no KV-head key: one head. 2 x 64 x 2 bytes x 32 layers = 8192 per token."""
    config = {"model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71,
              "hidden_size": 4544, "multi_query": True}  # fmt: skip
    assert kept(config) == FullAttention(kv_heads=1, head_dim=64)
    del config["multi_query"]  # the class says the same
    assert kept(config) == FullAttention(kv_heads=1, head_dim=64)


def test_falcon_40b_and_falcon_rw() -> None:
    """new_decoder_architecture has its own KV heads; without multi_query there is one per head."""
    new = {"model_type": "falcon", "n_layer": 60, "n_head": 128, "hidden_size": 8192,
           "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8}  # fmt: skip
    assert kept(new) == FullAttention(kv_heads=8, head_dim=64)
    old = {"model_type": "falcon", "n_layer": 24, "n_head": 32, "hidden_size": 2048,
           "multi_query": False, "num_kv_heads": 32}  # fmt: skip
    assert kept(old) == FullAttention(kv_heads=32, head_dim=64)


def test_starcoder() -> None:
    """GPT-BigCode: multi_query is one KV head; a number that contradicts it is refused."""
    config = {"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144,
              "multi_query": True}  # fmt: skip
    assert kept(config) == FullAttention(kv_heads=1, head_dim=128)
    with pytest.raises(ImportRefused, match="contradicts multi_query"):
        import_config({**config, "num_key_value_heads": 48})


def test_chatglm() -> None:
    """multi_query_group_num counts only with multi_query_attention; kv_channels is head_dim."""
    config = {
        "model_type": "chatglm",
        "num_layers": 28,
        "num_attention_heads": 32,
        "hidden_size": 4096,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "seq_length": 8192,
        "padded_vocab_size": 65024,
    }
    assert kept(config) == FullAttention(kv_heads=2, head_dim=128)
    assert kept({**config, "multi_query_attention": False}).kv_heads == 32
    assert import_config(config).spec.vocab_size == 65024


def test_dbrx_and_mpt() -> None:
    """KV heads inside attn_config."""
    dbrx = {"model_type": "dbrx", "n_layers": 40, "n_heads": 48, "d_model": 6144,
            "max_seq_len": 32768, "attn_config": {"kv_n_heads": 8, "clip_qkv": 8}}  # fmt: skip
    assert kept(dbrx) == FullAttention(kv_heads=8, head_dim=128)
    mpt = {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096,
           "attn_config": {"attn_type": "multihead_attention"}}  # fmt: skip
    assert kept(mpt) == FullAttention(kv_heads=32, head_dim=128)
    assert kept({**mpt, "attn_config": {"attn_type": "multiquery_attention"}}).kv_heads == 1


def test_nemotron_nas() -> None:
    """Every block says its group size, and blocks without attention keep nothing."""

    def block(group: int | None) -> dict[str, Any]:
        return {"attention": {"n_heads_in_group": group, "no_op": group is None}}

    config = llama(
        model_type="nemotron-nas", num_hidden_layers=4, num_attention_heads=64, hidden_size=8192,
        num_key_value_heads=None, block_configs=[block(8), block(None), block(4), block(8)],
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("full", "mlp", "full_16", "full")
    assert spec.kinds["full"] == (FullAttention(kv_heads=8, head_dim=128),)
    assert spec.kinds["full_16"] == (FullAttention(kv_heads=16, head_dim=128),)
    with pytest.raises(ImportRefused, match="3 entries for 4 layers"):
        import_config({**config, "block_configs": config["block_configs"][:3]})
    with pytest.raises(ImportRefused, match="does not divide 64 heads"):
        import_config({**config, "block_configs": [block(7)] * 4})


def test_hunyuan_shares_across_layers() -> None:
    """Hunyuan-Large: with use_cla every second layer reads the one before it."""
    config = llama(model_type="hunyuan", num_hidden_layers=4, cla_share_factor=2, use_cla=True)
    spec = import_config(config).spec
    assert spec.layers == ("full", "shared_full") * 2
    assert spec.kinds["shared_full"] == (SharedCache(reads="full"),)
    assert len(import_config({**config, "use_cla": False}).spec.kinds) == 1


def test_minimax_m3_index_keys() -> None:
    """MiniMax M3: an index key of 128 beside K and V on the sparse layers."""
    config = llama(
        model_type="minimax_m3", num_hidden_layers=4, num_key_value_heads=4, head_dim=128,
        sparse_attention_config={"use_sparse_attention": True, "sparse_index_dim": 128,
                                 "sparse_attention_freq": [0, 1, 1, 1]},
    )  # fmt: skip
    spec = import_config(config).spec
    assert spec.layers == ("full", "full_indexed", "full_indexed", "full_indexed")
    assert spec.kinds["full_indexed"] == (
        FullAttention(kv_heads=4, head_dim=128),
        Indexer(head_dim=128),
    )


def test_openelm_heads_by_layer() -> None:
    """OpenELM: heads differ from layer to layer."""
    config = {"model_type": "openelm", "num_transformer_layers": 2, "head_dim": 64,
              "num_query_heads": [12, 16], "num_kv_heads": [3, 4], "model_dim": 1280}  # fmt: skip
    spec = import_config(config).spec
    assert [spec.kinds[name][0].kv_heads for name in spec.layers] == [3, 4]


@pytest.mark.parametrize("attention", [..., None, "32", [], {}, {"kv_n_heads": None}])
def test_dbrx_without_kv_heads(attention: object) -> None:
    """DBRX without kv_n_heads in attn_config is refused: it is no multi-head model."""
    dbrx = {"model_type": "dbrx", "n_layers": 40, "n_heads": 48, "d_model": 6144,
            "max_seq_len": 32768, "attn_config": attention}  # fmt: skip
    with pytest.raises(ImportRefused, match="attn_config"):
        import_config({key: value for key, value in dbrx.items() if value is not ...})


def test_an_object_is_an_object() -> None:
    """A text where an object should stand is refused, not read as an empty one."""
    m3 = llama(model_type="minimax_m3", sparse_attention_config="32")
    with pytest.raises(ImportRefused, match="sparse_attention_config is '32', it must be an ob"):
        import_config(m3)


@pytest.mark.parametrize(("model_type", "default"), [("qwen3", 128), ("gemma", 256)])
def test_null_head_dim(model_type: str, default: int) -> None:
    """head_dim null, where the class knows a number that hidden_size / heads is not, is refused."""
    config = llama(model_type=model_type, hidden_size=5120)
    assert kept(config).fields()
    with pytest.raises(ImportRefused, match=rf"head_dim is null, .* {default} .* 160"):
        import_config({**config, "head_dim": None})
