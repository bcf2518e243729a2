"""The GGUF importer: what a model keeps, read from metadata, with numbers written out.

One small metadata set per idea stands here; `test_gguf_truth.py` holds the importer against what
llama.cpp allocated for 79 real metadata sets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.documents.from_yaml import read_yaml
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import ImportRefused, InputError
from kvplan.importers.gguf import import_gguf
from kvplan.importers.imported import Imported
from kvplan.importers.weights import weights_of
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec, Rope
from kvplan.spec.reader import read_spec
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    GenericRecurrent,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    Rwkv,
    ShortConvolution,
)
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
)
from kvplan.spec.writer import write_spec
from tests.importers.gguf_writer import F32, Q4_K, Q8_0, Typed, write_gguf

HEADS = {
    "block_count": 8,
    "context_length": 32768,
    "embedding_length": 1024,
    "attention.head_count": 16,
    "attention.head_count_kv": 4,
    "attention.key_length": 128,
    "attention.value_length": 128,
}
FULL = FullAttention(kv_heads=4, head_dim=128)
MAMBA2_KEYS = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 2048,
    "ssm.state_size": 64,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 32,
}
MAMBA2 = Mamba2(conv_kernel=4, num_heads=32, head_dim=64, state_size=64, n_groups=2)
MLA = {
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.kv_lora_rank": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "rope.dimension_count": 64,
}
LATENT = LatentAttention(
    kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
)


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load_(arch: str, extra: dict[str, Any] | None = None, **general: Any) -> Imported:
        keys = {key: value for key, value in (HEADS | (extra or {})).items() if value is not None}
        metadata = {"general.architecture": arch} | {f"general.{k}": v for k, v in general.items()}
        metadata |= {
            key if key.startswith("tokenizer.") else f"{arch}.{key}": value
            for key, value in keys.items()
        }
        return import_gguf(write_gguf(tmp_path / "model-Q4_K_M.gguf", metadata))

    return load_


def states(spec: ModelSpec) -> list[tuple[Any, ...]]:
    """What each layer keeps, the layers of prediction last."""
    return [spec.kinds[name] for name in (*spec.layers, *spec.draft_layers)]


def ids(imported: Imported) -> list[str]:
    return [warning.id for warning in imported.warnings]


def bytes_at(spec: ModelSpec, ctx: int) -> int:
    return logical_cache(spec, Request(ctx=ctx)).bytes


# -- plain attention --------------------------------------------------------------------------


def test_plain_model_is_full_attention_in_every_layer(load: Any) -> None:
    """8 layers, 2 x 4 heads x 128 x 2 bytes per token: 16,384 bytes, in the cache's default f16."""
    imported = load("llama", name="My Llama 3.1 8B")

    assert states(imported.spec) == [(FULL,)] * 8
    assert (imported.spec.name, imported.spec.model_type) == ("my-llama-3.1-8b", "llama")
    assert (imported.spec.heads, imported.spec.hidden_size) == (16, 1024)
    assert (imported.spec.max_context, imported.spec.dtype) == (32768, "float16")
    assert bytes_at(imported.spec, 1000) == 8 * 2 * 4 * 128 * 2 * 1000
    assert imported.warnings == ()


def test_every_fact_names_its_origin(load: Any) -> None:
    """A key of the file, or the rule of the build that the layout follows."""
    comments = load("gemma2", {"attention.sliding_window": None}).comments()

    assert comments["layers"] == "gemma2.block_count"
    assert comments["dtype"].startswith("default cache type f16 of llama.cpp b11434")
    assert "4096 tokens: rule of llama.cpp b11434" in comments["kinds.sliding"]
    assert "gemma2.attention.head_count_kv" in comments["kinds.sliding"]


def test_head_dims_come_from_the_width_when_absent(load: Any) -> None:
    """key_length = embedding_length / head_count = 1024 / 16; no KV count means one per head."""
    gone = {"attention.key_length": None, "attention.value_length": None}
    spec = load("gpt2", gone | {"attention.head_count_kv": None}).spec

    assert states(spec)[0] == (FullAttention(kv_heads=16, head_dim=64),)


def test_k_and_v_may_differ(load: Any) -> None:
    """4 x (192 + 128) elements."""
    spec = load("llama", {"attention.key_length": 192}).spec

    assert states(spec)[0] == (FullAttention(kv_heads=4, head_dim=192, v_head_dim=128),)


def test_arrays_of_heads_give_every_layer_its_own(load: Any) -> None:
    """Nemotron-NAS: 0 KV heads is a layer that keeps nothing; OpenELM: counts that grow."""
    kv, q = [4, 4, 0, 4, 2, 2, 0, 0], [16, 16, 0, 16, 16, 8, 0, 0]
    spec = load("deci", {"attention.head_count_kv": kv, "attention.head_count": q}).spec

    two = FullAttention(kv_heads=2, head_dim=128)
    own = FullAttention(kv_heads=2, head_dim=128, heads=8)
    assert states(spec) == [(FULL,), (FULL,), (), (FULL,), (two,), (own,), (), ()]
    assert spec.heads == 16


def test_vocabulary_rope_and_parameters(tmp_path: Path) -> None:
    """The vocabulary is the length of the token list, parameters the elements of the tensors."""
    metadata = {"general.architecture": "llama"} | {f"llama.{k}": v for k, v in HEADS.items()}
    metadata |= {
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 8192,
    }
    tensors = [
        ("token_embd.weight", (1024, 3), Q8_0),
        ("blk.0.attn_q.weight", (1024, 2048), Q4_K),
        ("rope_freqs.weight", (64,), F32),
    ]
    path = write_gguf(tmp_path / "Some Model.gguf", metadata, tensors)
    spec = import_gguf(path).spec

    assert (spec.name, spec.vocab_size) == ("some-model", 3)
    assert spec.parameters == 1024 * 3 + 1024 * 2048
    assert spec.rope == Rope(type="yarn", factor=4.0, original_max_context=8192)
    # 3,072 / 32 blocks of 34; 2,097,152 / 256 blocks of 144; 64 x 4
    weights = weights_of(spec, str(path))
    assert weights is not None
    assert weights.by_dtype == {"Q8_0": 3264, "Q4_K": 1_179_648, "F32": 256}


# -- windows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "full"),
    [
        ("gemma2", [1, 3, 5, 7]),
        ("gpt-oss", [1, 3, 5, 7]),
        ("gemma3", [5]),
        ("cohere2", [3, 7]),
        ("olmo2", [3, 7]),
        ("exaone-moe", [3, 7]),
        ("exaone4", [3, 7]),
        ("plamo3", [7]),
        ("smallthinker", [0, 4]),
        ("laguna", [0, 4]),
        ("cohere2moe", [0, 4]),
    ],
)
def test_period_of_an_architecture_decides_which_layers_slide(
    load: Any, arch: str, full: list[int]
) -> None:
    """One layer of every period is full: the last, or the first where the code says so."""
    spec = load(arch, {"attention.sliding_window": 512}).spec

    assert [i for i, kept in enumerate(states(spec)) if kept == (FULL,)] == full
    assert states(spec)[2] == (SlidingAttention(kv_heads=4, head_dim=128, window=512),)


def test_pattern_in_the_file_goes_before_the_period(load: Any) -> None:
    """An array names the sliding layers, a number is another period."""
    listed = [True, False, False, False, True, True, True, False]
    window = {"attention.sliding_window": 512}
    spec = load("gemma3", window | {"attention.sliding_window_pattern": listed}).spec
    period = load("gemma3", window | {"attention.sliding_window_pattern": 2}).spec

    assert [layer == "sliding" for layer in spec.layers] == listed
    assert [layer == "sliding" for layer in period.layers] == [True, False] * 4


def test_gemma_3_without_window_is_full(load: Any) -> None:
    """The 27B text: no window key, so llama.cpp and the model attend to everything."""
    assert states(load("gemma3").spec) == [(FULL,)] * 8


def test_layers_with_a_window_may_have_other_dims(load: Any) -> None:
    """Gemma 4: key_length is that of the full layers, key_length_swa of the sliding ones."""
    extra = {
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": [True, True, True, False] * 2,
        "attention.head_count_kv": [8, 8, 8, 2] * 2,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
    }
    spec = load("gemma4", extra).spec

    local = SlidingAttention(kv_heads=8, head_dim=256, window=1024)
    wide = FullAttention(kv_heads=2, head_dim=512)
    assert states(spec) == [(local,), (local,), (local,), (wide,)] * 2
    # 6 x 2 x 8 x 256 x 1024 + 2 x 2 x 2 x 512 x 10,000 elements of 2 bytes
    assert bytes_at(spec, 10_000) == 2 * (6 * 4096 * 1024 + 2 * 2048 * 10_000)


def test_llama_4_keeps_chunks_of_8192_that_no_key_names(load: Any) -> None:
    """Three chunked layers of four; an explicit window of 0 means none."""
    chunked = ChunkedAttention(kv_heads=4, head_dim=128, chunk=8192)

    assert states(load("llama4").spec) == [(chunked,), (chunked,), (chunked,), (FULL,)] * 2
    assert states(load("llama4", {"attention.sliding_window": 0}).spec) == [(FULL,)] * 8
    other = load("llama4", {"attention.chunk_size": 4096})
    assert states(other.spec)[0] == (ChunkedAttention(kv_heads=4, head_dim=128, chunk=4096),)
    assert ids(other) == ["llama-cpp-differs"]


def test_window_that_llama_cpp_does_not_use_is_the_models_all_the_same(load: Any) -> None:
    """Phi-3 mini 4k keeps 2047 tokens; llama.cpp keeps all, which a warning says. Phi-4 has 0."""
    imported = load("phi3", {"attention.sliding_window": 2047})

    assert states(imported.spec) == [(SlidingAttention(kv_heads=4, head_dim=128, window=2047),)] * 8
    assert ids(imported) == ["llama-cpp-differs"]
    assert states(load("phi3", {"attention.sliding_window": 0}).spec) == [(FULL,)] * 8


def test_window_that_the_converter_drops_is_asked_for(load: Any) -> None:
    """StarCoder2 slides, its file does not say so: counted in full, with a warning."""
    imported = load("starcoder2")

    assert states(imported.spec) == [(FULL,)] * 8
    assert ids(imported) == ["window-not-in-file"]


def test_exaone_4_window_by_number_of_layers(load: Any) -> None:
    """64 layers without a key: 4096 by llama.cpp's rule; fewer: full attention."""
    big = load("exaone4", {"block_count": 64}).spec

    assert states(big)[0] == (SlidingAttention(kv_heads=4, head_dim=128, window=4096),)
    assert states(load("exaone4").spec) == [(FULL,)] * 8


def test_window_without_a_pattern_is_refused_where_the_file_must_list_it(load: Any) -> None:
    """MiMo V2 has no period in the code."""
    with pytest.raises(ImportRefused, match=r"mimo2\.attention\.sliding_window_pattern is missing"):
        load("mimo2", {"attention.sliding_window": 128})


# -- latent attention and indexers ------------------------------------------------------------


def test_mla_is_one_latent_and_one_rotary_key(load: Any) -> None:
    """DeepSeek V3: (512 + 64) x 2 bytes per token and layer, whatever the heads."""
    imported = load("deepseek2", MLA)

    assert states(imported.spec) == [(LATENT,)] * 8
    assert bytes_at(imported.spec, 1000) == 8 * 576 * 2 * 1000
    assert imported.warnings == ()


def test_old_mla_file_is_still_a_latent_model(load: Any) -> None:
    """Without key_length_mla llama.cpp caches 16 heads of 192 + 128: said, not counted."""
    old = {
        "attention.head_count_kv": 16,
        "attention.key_length": 192,
        "attention.value_length": 128,
        "attention.key_length_mla": None,
        "attention.value_length_mla": None,
    }
    imported = load("deepseek2", MLA | old)

    assert states(imported.spec) == [(LATENT,)] * 8
    assert ids(imported) == ["llama-cpp-differs"]
    assert "16 decompressed heads of 192 K and 128 V" in imported.warnings[0].message


def test_minicpm3_is_latent(load: Any) -> None:
    """256 + 32 elements; no value_length stands in the file."""
    extra = {
        "attention.head_count_kv": 16,
        "attention.q_lora_rank": 768,
        "attention.kv_lora_rank": 256,
        "attention.key_length": 96,
        "attention.value_length": None,
        "rope.dimension_count": 32,
    }
    imported = load("minicpm3", extra)

    assert bytes_at(imported.spec, 100) == 8 * (256 + 32) * 2 * 100
    assert ids(imported) == ["llama-cpp-differs"]


def test_contradicting_mla_sizes_are_refused(load: Any) -> None:
    """key_length must be the latent and the rotary key."""
    with pytest.raises(ImportRefused, match="key_length is 640, but kv_lora_rank 512"):
        load("deepseek2", MLA | {"attention.key_length": 640})


def test_indexers_by_architecture(load: Any) -> None:
    """DeepSeek V3.2: every layer; GLM 5.2: the listed ones; MiniMax M3: after the dense ones."""
    index = {"attention.indexer.key_length": 128, "attention.indexer.head_count": 64}
    types = [True, True, True, False, False, False, True, False]
    every = load("deepseek32", MLA | index).spec
    listed = load("glm-dsa", MLA | index | {"attention.indexer.types": types}).spec
    after = load("minimax-m3", index | {"leading_dense_block_count": 3}).spec

    owner = Indexer(head_dim=128)
    assert states(every) == [(LATENT, owner)] * 8
    assert states(listed) == [(LATENT, owner) if own else (LATENT,) for own in types]
    assert states(after) == [(FULL,)] * 3 + [(FULL, owner)] * 5


def test_glm_without_indexer_types_is_told_by_its_context(load: Any) -> None:
    """GLM 5 and 5.1 (202,752): every layer; GLM 5.2 (1,048,576): 0, 1, 2, 6, 10, ..."""
    index = MLA | {"attention.indexer.key_length": 128, "block_count": 12}
    five = load("glm-dsa", index | {"context_length": 202_752}).spec
    later = load("glm-dsa", index | {"context_length": 1_048_576}).spec

    assert {len(kept) for kept in states(five)} == {2}
    owners = [layer for layer, kept in enumerate(states(later)) if len(kept) == 2]
    assert owners == [0, 1, 2, 6, 10]


def test_latents_of_sliding_layers_are_smaller_and_kept_for_the_window(load: Any) -> None:
    """dots3-note: 256 + 64 elements for 1,024 tokens, also in the layers of prediction."""
    extra = MLA | {
        "block_count": 4,
        "attention.head_count": [16, 8, 16, 8],
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": [False, True, False],
        "attention.kv_lora_rank_swa": 256,
        "attention.key_length_mla_swa": 192,
        "attention.value_length_mla_swa": 128,
        "attention.indexer.key_length": 128,
        "attention.indexer.types": [True, False, False],
        "nextn_predict_layers": 1,
    }
    spec = load("dots3note", extra).spec

    window = CompressedLatent(head_dim=320, window=1024, heads=8)
    assert states(spec) == [(LATENT, Indexer(head_dim=128)), (window,), (LATENT,), (window,)]


def test_deepseek_v4_compresses_by_layer(load: Any) -> None:
    """Ratio 0: the window of 128 only; 4: one vector and one indexer key per 4 tokens; 128."""
    extra = {
        "block_count": 4,
        "attention.head_count_kv": 1,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.sliding_window": 128,
        "attention.indexer.key_length": 128,
        "attention.compress_ratios": [0, 4, 128, 4, 0],
    }
    spec = load("deepseek4", extra).spec

    window = CompressedLatent(head_dim=512, window=128)
    four = CompressedLatent(head_dim=512, window=128, ratio=4)
    far = CompressedLatent(head_dim=512, window=128, ratio=128)
    owner = Indexer(head_dim=128, ratio=4)
    assert states(spec) == [(window,), (four, owner), (far,), (four, owner)]
    # vectors: 4 x 128 + 2 x 250 + 7; indexer keys 2 x 250
    assert bytes_at(spec, 1000) == 2 * (512 * (512 + 500 + 7) + 128 * 500)


# -- recurrent layers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "extra", "state"),
    [
        (
            "mamba",
            {
                "attention.head_count": 0,
                "ssm.conv_kernel": 4,
                "ssm.inner_size": 1536,
                "ssm.state_size": 16,
                "ssm.time_step_rank": 48,
                "ssm.dt_b_c_rms": False,
            },
            Mamba1(conv_kernel=4, intermediate_size=1536, state_size=16),
        ),
        ("mamba2", MAMBA2_KEYS | {"attention.head_count": 0}, MAMBA2),
        (
            "rwkv6",
            {"attention.head_count": 0, "wkv.head_size": 64, "time_mix_extra_dim": 32},
            Rwkv(hidden_size=1024, head_dim=64),
        ),
        (
            "rwkv7",
            {"attention.head_count": 0, "wkv.head_size": 64, "token_shift_count": 1},
            Rwkv(hidden_size=1024, head_dim=64, token_shifts=1),
        ),
    ],
)
def test_attention_free_models(load: Any, arch: str, extra: dict[str, Any], state: Any) -> None:
    """Every layer keeps one state, whatever the context."""
    spec = load(arch, extra | {"attention.head_count_kv": None}).spec

    assert states(spec) == [(state,)] * 8
    assert bytes_at(spec, 10) == bytes_at(spec, 100_000)
    assert spec.heads is None


@pytest.mark.parametrize(
    ("arch", "extra", "state"),
    [
        (
            "jamba",
            {"ssm.conv_kernel": 4, "ssm.inner_size": 2048, "ssm.state_size": 16},
            Mamba1(conv_kernel=4, intermediate_size=2048, state_size=16),
        ),
        ("granitehybrid", MAMBA2_KEYS, MAMBA2),
        (
            "plamo2",
            MAMBA2_KEYS | {"ssm.group_count": 0},
            GenericRecurrent(conv_kernel=4, channels=2048, shape=(32, 64, 64)),
        ),
        ("lfm2", {"shortconv.l_cache": 3}, ShortConvolution(conv_kernel=3, channels=1024)),
    ],
)
def test_layers_without_kv_heads_are_recurrent(
    load: Any, arch: str, extra: dict[str, Any], state: Any
) -> None:
    """head_count_kv 0 marks them in these hybrids."""
    spec = load(arch, extra | {"attention.head_count_kv": [0, 0, 4, 0] * 2}).spec

    assert states(spec) == [(state,), (state,), (FULL,), (state,)] * 2


def test_kimi_linear_mixes_kda_and_latents(load: Any) -> None:
    """KDA has the model's heads; the others keep a latent."""
    extra = MLA | {
        "attention.head_count_kv": [0, 0, 0, 1] * 2,
        "attention.value_length": None,
        "kda.head_dim": 128,
        "ssm.conv_kernel": 4,
    }
    spec = load("kimi-linear", extra).spec

    kda = KimiDeltaAttention(conv_kernel=4, num_heads=16, head_dim=128)
    assert states(spec) == [(kda,), (kda,), (kda,), (LATENT,)] * 2
    assert attention_label(spec) == "mla+hybrid-linear(KDA)"


def test_nemotron_h_blocks_are_attention_mamba_or_feed_forward(load: Any) -> None:
    """A feed-forward block has no KV heads either and keeps nothing."""
    extra = MAMBA2_KEYS | {
        "attention.head_count_kv": [0, 0, 4, 0, 0, 0, 4, 0],
        "feed_forward_length": [0, 99, 0, 99, 0, 99, 0, 99],
    }
    spec = load("nemotron_h", extra).spec

    assert states(spec) == [(MAMBA2,), (), (FULL,), ()] * 2


def test_falcon_h1_keeps_both_in_every_layer(load: Any) -> None:
    """Attention and Mamba stand side by side."""
    assert states(load("falcon-h1", MAMBA2_KEYS).spec) == [(FULL, MAMBA2)] * 8


def test_gated_delta_net_reads_the_ssm_keys_its_own_way(load: Any) -> None:
    """Qwen3.5: group_count is the key heads, time_step_rank the value heads."""
    extra = MAMBA2_KEYS | {"full_attention_interval": 4}
    delta = GatedDeltaNet(conv_kernel=4, k_heads=2, k_head_dim=64, v_heads=32, v_head_dim=64)

    by_interval = load("qwen35", extra).spec
    listed = [True, False] * 4
    by_list = load("qwen35", extra | {"attention.recurrent_layers": listed}).spec

    assert states(by_interval) == [(delta,), (delta,), (delta,), (FULL,)] * 2
    assert states(by_list) == [(delta,), (FULL,)] * 4


def test_lightning_attention_takes_every_eighth_layer_full_by_default(load: Any) -> None:
    """MiniMax-01 writes no interval: 8 in llama.cpp's code."""
    spec = load("minimax-01").spec

    assert states(spec) == [(LightningAttention(num_heads=16, head_dim=128),)] * 7 + [(FULL,)]


# -- shared caches, prediction, encoders -------------------------------------------------------


def test_shared_layers_read_the_last_of_their_sort(load: Any) -> None:
    """Gemma 3n / 4 E: the last layers keep nothing, and name what they read."""
    extra = {
        "block_count": 10,
        "attention.sliding_window": 512,
        "attention.sliding_window_pattern": [True, False] * 5,
        "attention.shared_kv_layers": 4,
    }
    spec = load("gemma4", extra).spec

    assert states(spec)[6:8] == [(SharedCache(reads="sliding"),), (SharedCache(reads="full"),)]
    assert spec.shared_sources() == {6: 4, 7: 5, 8: 4, 9: 5}
    assert bytes_at(spec, 1000) == 2 * 4 * 128 * 2 * (3 * 512 + 3 * 1000)


def test_layers_of_prediction_are_draft_layers(load: Any) -> None:
    """block_count includes them; they count only when asked for."""
    spec = load("glm4moe", {"nextn_predict_layers": 1}).spec
    hybrid = load("qwen35", MAMBA2_KEYS | {"nextn_predict_layers": 4}).spec

    assert (len(spec.layers), len(spec.draft_layers)) == (7, 1)
    assert bytes_at(spec, 10) == 7 * 2 * 4 * 128 * 2 * 10
    assert states(hybrid)[4:] == [(FULL,)] * 4


def test_t5_decoder_also_keeps_the_encoders_output(load: Any) -> None:
    """Self attention and cross attention in every layer of the decoder."""
    extra = {"attention.head_count_kv": None, "decoder_block_count": 8}
    spec = load("t5", extra).spec

    pair = (
        FullAttention(kv_heads=16, head_dim=128),
        CrossAttention(kv_heads=16, head_dim=128),
    )
    assert states(spec) == [pair] * 8


def test_encoders_keep_nothing_and_say_so(load: Any) -> None:
    """0 bytes are never silent."""
    imported = load("bert")

    assert bytes_at(imported.spec, 1000) == 0
    assert ids(imported) == ["bidirectional-model"]


def test_decoder_used_in_both_directions_is_counted_with_a_warning(load: Any) -> None:
    """An embedding model with a decoder's architecture gets that architecture's cache."""
    imported = load("qwen2", {"attention.causal": False})

    assert states(imported.spec) == [(FULL,)] * 8
    assert ids(imported) == ["bidirectional-model"]


def test_looped_stack_has_a_cache_per_loop(load: Any) -> None:
    """Nanbeige runs its layers num_loops times."""
    assert states(load("nanbeige", {"num_loops": 2}).spec) == [(FULL,)] * 16


# -- refusals ---------------------------------------------------------------------------------


def test_unknown_architecture_with_plain_keys_is_assumed_plain(load: Any) -> None:
    """Named as an assumption."""
    imported = load("newmodel", {"feed_forward_length": 4096, "rope.freq_base": 1e6})

    assert states(imported.spec) == [(FULL,)] * 8
    assert ids(imported) == ["assumed-plain-attention"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.sliding_window", 4096),
        ("attention.sliding_window_pattern", [True] * 8),
        ("attention.local_span", 512),
        ("attention.kv_lora_rank", 512),
        ("attention.q_lora_rank", 512),
        ("attention.something_new", 7),
        ("attention.indexer.key_length", 128),
        ("attention.shared_kv_layers", 2),
        ("attention.compress_ratios", [4] * 8),
        ("attention.recurrent_layers", [True] * 8),
        ("attention.head_count_kv", [4, 4, 4, 4, 0, 0, 4, 4]),
        ("ssm.state_size", 16),
        ("kda.head_dim", 128),
        ("wkv.head_size", 64),
        ("shortconv.l_cache", 3),
        ("full_attention_interval", 4),
        ("num_loops", 2),
        ("decoder_block_count", 8),
        ("cache_merge_factor", 2),
    ],
)
def test_unknown_architecture_with_a_shaping_key_is_refused(
    load: Any, key: str, value: object
) -> None:
    """The key, its value and the spec lines to write are in the message."""
    with pytest.raises(ImportRefused) as caught:
        load("newmodel", {key: value})

    assert f"newmodel.{key} is" in caught.value.message
    assert "kinds: {full: {kind: full, " in str(caught.value.hint)
    assert "for 8 layers" in str(caught.value.hint)


def test_known_architecture_refuses_a_shaping_key_it_does_not_read(load: Any) -> None:
    """Which layers of a Qwen2 slide stands in no GGUF key."""
    with pytest.raises(ImportRefused, match=r"qwen2\.attention\.sliding_window is 4096"):
        load("qwen2", {"attention.sliding_window": 4096})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("block_count", 0, "llama.block_count is 0"),
        ("block_count", None, "llama.block_count is missing"),
        ("block_count", 5000, "llama.block_count is 5000, beyond"),
        ("block_count", "8", "llama.block_count is '8', not a whole number"),
        ("attention.head_count", None, "llama.attention.head_count is missing"),
        ("attention.head_count", 0, "head_count_kv is 4, which does not divide head_count 0"),
        ("attention.head_count_kv", 5, "head_count_kv is 5, which does not divide head_count 16"),
        ("attention.head_count_kv", [4] * 7, "head_count_kv has 7 elements, the model has 8"),
        ("attention.head_count_kv", [4.0] * 8, r"head_count_kv\[0\] is 4.0, not a whole number"),
        ("attention.head_count_kv", Typed("int32", -1), "head_count_kv is -1, outside"),
        ("attention.key_length", 0, "llama.attention.key_length is 0"),
        ("context_length", 0, "llama.context_length is 0"),
        ("nextn_predict_layers", 8, "nextn_predict_layers is 8 of 8 layers"),
        ("rope.scaling.factor", float("nan"), "rope.scaling.factor is nan"),
    ],
)
def test_missing_zero_and_contradicting_facts_are_refused(
    load: Any, key: str, value: object, message: str
) -> None:
    """Never repaired: the message names the key and both numbers."""
    with pytest.raises(ImportRefused, match=message):
        load("llama", {key: value})


def test_array_too_long_to_be_kept_is_refused(load: Any) -> None:
    """The reader walks over long arrays; a needed fact under one is named."""
    with pytest.raises(ImportRefused, match=r"head_count_kv is array\[int32\] of length 5000"):
        load("llama", {"attention.head_count_kv": [4] * 5000})


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"general.architecture": "clip", "general.type": "mmproj"}, "projector"),
        ({"general.architecture": "clip"}, "projector"),
        ({"general.architecture": "llama", "general.type": "adapter"}, "LoRA adapter"),
        ({"general.type": "imatrix"}, "importance matrix"),
        ({"general.architecture": "eagle3"}, "draft head"),
        ({"general.name": "nothing"}, "general.architecture is missing"),
        ({"general.architecture": "a\nb"}, "not a name"),
    ],
)
def test_files_that_are_no_models_say_what_they_are(
    tmp_path: Path, metadata: dict[str, Any], what: str
) -> None:
    """A projector, an adapter or a matrix has no cache of its own."""
    path = write_gguf(tmp_path / "file.gguf", metadata)

    with pytest.raises(ImportRefused, match=what):
        import_gguf(path)


def test_split_model_whose_other_parts_are_elsewhere(tmp_path: Path) -> None:
    """The first part holds the metadata; only the parameters stay unknown, as a warning says."""
    metadata = {"general.architecture": "llama", "split.no": 0, "split.count": 2}
    metadata |= {f"llama.{key}": value for key, value in HEADS.items()}
    path = write_gguf(tmp_path / "m-00001-of-00002.gguf", metadata)
    imported = import_gguf(path)

    assert bytes_at(imported.spec, 10) == 8 * 2 * 4 * 128 * 2 * 10
    assert ids(imported) == ["tensors-not-read"]


# -- anything at all ---------------------------------------------------------------------------

_KEYS = sorted(
    {*HEADS, *MLA, *MAMBA2_KEYS, "attention.sliding_window", "attention.sliding_window_pattern"}
    | {"attention.indexer.key_length", "attention.indexer.types", "attention.compress_ratios"}
    | {"attention.shared_kv_layers", "attention.recurrent_layers", "nextn_predict_layers"}
    | {"kda.head_dim", "wkv.head_size", "shortconv.l_cache", "num_loops", "decoder_block_count"}
    | {"feed_forward_length", "leading_dense_block_count", "full_attention_interval"}
    | {"attention.causal", "rope.scaling.type", "rope.scaling.factor", "attention.new_thing"}
)
_NUMBERS = st.one_of(st.integers(0, 9), st.sampled_from([64, 128, 4096, 2**31, 2**63]))
_VALUES = st.one_of(
    _NUMBERS,
    st.integers(-3, -1),
    st.booleans(),
    st.floats(width=32),
    st.text(max_size=5),
    st.lists(st.integers(0, 4), max_size=9),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
_ARCHITECTURES = [
    "llama", "gemma2", "gemma3n", "gemma4", "llama4", "phi3", "deepseek2", "deepseek4", "glm-dsa",
    "dots3note", "minimax-m3", "mamba", "jamba", "nemotron_h", "falcon-h1", "qwen35", "kimi-linear",
    "minimax-01", "lfm2", "rwkv6", "plamo2", "t5", "bert", "nanbeige", "deci", "unheard-of",
]  # fmt: skip


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(_ARCHITECTURES), st.dictionaries(st.sampled_from(_KEYS), _VALUES))
def test_any_metadata_is_a_valid_model_or_a_refusal(
    tmp_path: Path, arch: str, mutations: dict[str, Any]
) -> None:
    """No other error, no zero without a warning, and what is written reads back the same."""
    base = HEADS | (MAMBA2_KEYS if arch in ("mamba", "jamba", "falcon-h1", "qwen35") else {})
    base |= MLA if arch in ("deepseek2", "glm-dsa", "kimi-linear") else {}
    metadata = {"general.architecture": arch}
    metadata |= {f"{arch}.{key}": value for key, value in (base | mutations).items()}
    path = write_gguf(tmp_path / "any.gguf", metadata)
    try:
        imported = import_gguf(path)
    except InputError as error:
        assert error.message
        return

    spec = imported.spec
    assert bytes_at(spec, 4096) > 0 or imported.warnings
    text = write_spec(spec, comments=imported.comments())
    assert read_spec(read_yaml(text, "any.yaml")) == spec
