"""Keys that shape a cache: each must be one that the architecture's row reads, else refusal.

An unknown architecture may have a layout that nobody here has seen. It passes as plain attention
only while every key of it is known to be no matter of the cache, and then with a warning. A key
with nothing in it (0, false, an array of zeros) hints at nothing.
"""

from __future__ import annotations

import re

from kvplan.importers.config.hints import STRONG
from kvplan.importers.gguf.architectures import Architecture
from kvplan.importers.gguf.keys import MAX_NUMBER, Keys, brief
from kvplan.importers.gguf.values import Value

# Never a matter of the cache, though some sound like it (`rope_pattern`, `moe_latent_size`).
_HARMLESS = re.compile(
    r"""(block_count|context_length|vocab_size|embedding_length(_out|_per_layer_input)?|features_length
    |feed_forward_length|leading_dense_block_count|nextn_predict_layers
    |(expert|experts|moe|rope|altup|activation|classifier|pooling_type|dense_\d|hyper_connection|swiglu)\w*(\..+)?
    |xielu\..+|attn_res\..+|(vision|audio|mm)\..+|spatial_merge_size|image_\w+|interleave_moe_layer_step|hash_layer_count|decision\..+
    |(attn_|final_|router_)?logit_(scale|softcapping)|residual_scale|embedding_scale
    |use_parallel_residual|tensor_data_layout|hidden_act(ivation)?|swin_norm|rescale_every_n_layers
    |n_deepstack_layers|deepstack_mapping|decoder_start_token_id|norm_before_\w+
    |time_(mix|decay)_extra_dim|attention\.(
        head_count(_kv)?|key_length|value_length|causal|max_alibi_bias|clamp_kqv|scale|output_scale
        |value_scale|(layer|group)_norm\w*|layer_norm_rms_epsilon|temperature_\w+|rope_pattern
        |relative_buckets_count|output_group_count|output_lora_rank|compress_rope_freq_base
        |decay_lora_rank|iclr_lora_rank|value_residual_mix_lora_rank|gate_lora_rank))""",
    re.VERBOSE,
)
# What shapes the cache after all (`expert_cache_rate`), as do the words of a config's keys.
_KEPT = re.compile(r"cache|window|memory|state|kept|keep|shar|kv_|_attention|cross")
# Keys of llama.cpp's own in which a word of the cache means something else.
_PHRASES = re.compile(
    r"expert_shared_(count|feed_forward_length)|expert_group|shared_expert\w*|moe_latent_size"
    r"|hash_layer_count|rope\.(freq_base|dimension)\w*|nextn_predict_layers|activation.sparsity_scale"
    r"|embedding_length_per_layer_input|rescale_every_n_layers|time_decay_extra_dim"
    r"|hyper_connection\.sinkhorn\w*|expert_chunk_feed_forward_length|moe_every_n_layers|pooling_type"
    r"|attention\.(relative_buckets_count|compress_rope_freq_base|\w+_lora_rank|head_count_kv"
    r"|(key|value)_length|(layer|group)_norm\w*|clamp_kqv)"
)
# Words of a layout that is not plain, beside those of a config's keys.
_HINT = re.compile(
    r"slid|window|swa|chunk|pattern|period|interval|every|lora_rank|latent|mla|compress|index|sparse"
    r"|shar|cross|ssm|mamba|conv|wkv|rwkv|kda|linear|delta|gated|recur|state|cache|loop|cycle|hrm"
    r"|stride|ratio|decoder_block"
)


def check_hints(keys: Keys, row: Architecture | None) -> None:
    """Refuse the first key that shapes the cache in a way that nothing here reads.

    Args:
        keys: the metadata.
        row: the architecture's row, None if it is unknown.

    Raises:
        ImportRefused: such a key, with its value and what to write instead.
    """
    read = _read_by(row)
    for name in keys.names():
        value = keys.raw(name)
        if _harmless(name) or read.fullmatch(name) or _says_nothing(value):
            continue
        if row is None or _HINT.search(name.lower()) or STRONG.search(name.lower()):
            what = "an unknown architecture" if row is None else "this architecture"
            keys.refuse(
                name,
                f"is {brief(value)}: it may shape the cache, its meaning is not known for {what}",
                hint=_spec_lines(keys),
            )
    if row is None and isinstance(keys.raw("attention.head_count_kv"), tuple):
        counts = keys.array("attention.head_count_kv", (keys.required("block_count"),))
        if len(set(counts)) > 1:
            keys.refuse(
                "attention.head_count_kv",
                f"is {brief(counts)}: what these keep is not known for an unknown architecture",
                hint=_spec_lines(keys),
            )


def _harmless(name: str) -> bool:
    if not _HARMLESS.fullmatch(name):
        return False
    rest = _PHRASES.sub("", name.lower())
    return not (_KEPT.search(rest) or STRONG.search(rest))


def _spec_lines(keys: Keys) -> str:
    """The part of a spec to write by hand, in one line, with the numbers of this file."""

    def known(key: str) -> str:
        value = keys.raw(key)
        return str(value) if type(value) is int and 0 < value <= MAX_NUMBER else "?"

    heads, dim = known("attention.head_count_kv"), known("attention.key_length")
    return (
        "write what each layer keeps as a spec, such as "
        f"kinds: {{full: {{kind: full, kv_heads: {heads}, head_dim: {dim}}}, "
        f"local: {{kind: sliding, kv_heads: {heads}, head_dim: {dim}, window: ?}}}} and "
        f"layers: [{{repeat: ?, of: [local, full]}}] for {known('block_count')} layers"
    )


def _read_by(row: Architecture | None) -> re.Pattern[str]:
    """The shaping keys that the importer reads for this row."""
    if row is None:
        return re.compile("(?!)")
    parts = []
    if row.window:
        parts.append(r"attention\.sliding_window(_pattern)?|attention\.(key|value)_length_swa")
    if row.window and row.window.chunk:
        parts.append(r"attention\.chunk_size")
    if row.latent or row.compressed:
        parts.append(r"attention\.(q|kv)_lora_rank|attention\.(key|value)_length_mla")
    if row.latent == "sliding":
        parts.append(r"attention\.kv_lora_rank_swa|attention\.(key|value)_length_mla_swa")
    if row.indexer or row.compressed:
        parts.append(
            r"attention\.indexer\.(head_count|key_length|top_k|block_size|local_blocks|types)"
        )
    if row.compressed:
        parts.append(r"attention\.compress_ratios")
    if row.shared:
        parts.append(r"attention\.shared_kv_layers")
    if row.recurrence:
        parts.append(
            r"ssm\.\w+|kda\.\w+|shortconv\.l_cache|wkv\.head_size|token_shift_count"
            r"|full_attention_interval|attention\.recurrent_layers"
        )
    if row.cross:
        parts.append("decoder_block_count")
    if row.loops:
        parts.append(r"num_loops|skip_loop_final_norm|hrm\.\w+")
    if not row.keeps:
        parts.append(".*")  # nothing is kept, whatever the layers attend to
    return re.compile("|".join(parts) or "(?!)")


def _says_nothing(value: Value | None) -> bool:
    if isinstance(value, tuple):
        return not any(value)
    return isinstance(value, bool | int | float) and not value
