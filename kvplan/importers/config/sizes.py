"""Sizes from which the parameters of a model follow: MLP, experts, head.

Nothing of the cache depends on them, so a value that cannot be right is passed over here and never
refuses a file; what is missing makes the weights less exact and the budget says so.
Source: configuration classes of transformers 5.24.0 (key names; which types tie their head).
"""

from __future__ import annotations

from kvplan.importers.config.facts import LARGEST_COUNT, Facts
from kvplan.spec.model import Sizes

_MLP = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
            "ffn_config.moe_num_experts", "num_routed_experts")  # fmt: skip
_CHOSEN = ("num_experts_per_tok", "moe_topk", "num_experts_per_token", "experts_per_token",
           "top_k_experts", "ffn_config.moe_top_k", "moe_k")  # fmt: skip
_EXPERT = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size",
           "ffn_config.ffn_hidden_size")  # fmt: skip
_SHARED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
           "shared_intermediate_size")  # fmt: skip
_SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert")
# Types whose class shares the embedding with the head unless the file says otherwise.
_TIED = frozenset((
    "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text",
    "gpt2", "bloom", "falcon", "opt", "cohere", "cohere2", "gpt_bigcode", "starcoder2", "mpt",
    "mamba", "mamba2", "codegen", "t5", "phi4mm",
))  # fmt: skip
# Types whose MLP has two matrices, not three.
_PLAIN_MLP = frozenset((
    "gpt2", "gptj", "gpt_neox", "gpt_neo", "opt", "bloom", "falcon", "phi", "mpt", "starcoder2",
    "gpt_bigcode", "codegen", "nemotron", "nemotron_h", "persimmon", "whisper",
))  # fmt: skip
# Types whose MLP is four times as wide as the model unless the file says otherwise.
_FOURFOLD = frozenset(("gpt2", "gptj", "bloom", "falcon", "phi", "mpt", "gpt_bigcode", "codegen"))


def sizes(facts: Facts, root: Facts, layers: int) -> Sizes | None:
    """What the file says of them, None where it says nothing."""
    mlp = _count(facts, *_MLP)
    experts = _count(facts, *_EXPERTS)
    found = {
        "head": _head(facts, root),
        "mlp_matrices": 2 if facts.model_type in _PLAIN_MLP else None,
        "q_lora_rank": _count(facts, "q_lora_rank"),
    }
    if facts.model_type == "llama4_text" and experts:
        found["moe_intermediate_size"] = mlp
        found["shared_expert_size"] = mlp
        mlp = _count(facts, "intermediate_size_mlp") or mlp
    elif experts and experts > 1:
        found["moe_intermediate_size"] = _count(facts, *_EXPERT) or mlp
        found["shared_expert_size"] = _shared(facts, found["moe_intermediate_size"])
    if experts and experts > 1:
        found["num_experts"] = experts
        found["num_experts_per_tok"] = _count(facts, *_CHOSEN)
        found["moe_layers"] = _moe_layers(facts, layers)
    if mlp is None and facts.model_type in _FOURFOLD:
        width = _count(facts, "hidden_size", "n_embd", "d_model")
        mlp = 4 * width if width else None
    found["intermediate_size"] = mlp
    known = {key: value for key, value in found.items() if value is not None}
    return Sizes(**known) if known.keys() - {"mlp_matrices"} else None  # type: ignore[arg-type]


def _head(facts: Facts, root: Facts) -> str | None:
    """`tied` or `own`; the outer file's word counts where the text config has none."""
    for book in (facts, root):
        value = book.glance("tie_word_embeddings")
        if isinstance(value, bool):
            return "tied" if value else "own"
    if facts.model_type is None:
        return None
    return "tied" if facts.model_type in _TIED else "own"


def _shared(facts: Facts, expert: int | str | None) -> int | None:
    given = _count(facts, *_SHARED)
    if given is not None:
        return given
    count = _count(facts, *_SHARED_COUNT)
    return count * expert if count and isinstance(expert, int) else None


def _moe_layers(facts: Facts, layers: int) -> int | None:
    """How many of the layers have experts."""
    pattern = facts.glance("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("E") or None
    kinds = facts.glance("layers_block_type")
    if isinstance(kinds, list) and "moe" in kinds:
        return kinds.count("moe")
    frequency = facts.glance("moe_layer_freq")
    if isinstance(frequency, list):
        return sum(1 for item in frequency if item == 1) or None
    listed = facts.glance("moe_layers")
    if isinstance(listed, list):
        return len(listed) or None
    step = _count(facts, "interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval")
    dense = _count(facts, "first_k_dense_replace", "num_dense_layers") or 0
    only = facts.glance("mlp_only_layers")
    if isinstance(only, list):
        dense += len(only)
    count = layers // step if step and step > 1 else layers
    return max(count - dense, 1)


def _count(facts: Facts, *keys: str) -> int | None:
    """The first of the keys that is a count; of a list of counts the largest."""
    for key in keys:
        value = facts.glance(key)
        if isinstance(value, list) and value and all(type(item) is int for item in value):
            value = max(value)
        if type(value) is int and 0 < value <= LARGEST_COUNT:
            return value
    return None
