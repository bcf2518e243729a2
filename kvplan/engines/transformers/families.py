"""The one table by model_type: what a transformers class caches beyond what the spec says.

Everything else in this package follows from the kinds of state. A row stands here only when the
class itself decides, and names the file of transformers 5.24.0 (or 4.57.6) in which it does.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.spec.model import ModelSpec
from kvplan.spec.states import SlidingAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the class of one model_type differs.

    Attributes:
        broadcast_heads: grouped K and V are copied to every query head before they are cached.
        all_full: windows are a matter of the mask only; every layer keeps every token.
        window_offset: added to the spec's window, because the class counts it differently.
        in_modules: recurrent states live in the modules, with kernel - 1 columns.
        own_cache: the model brings its own cache and ignores `cache_implementation`.
        linear_cache: lightning layers keep their matrix in the model's format under this name.
        slides: which layers slide once any does: `all`, or `even` ones before the first that the
            spec says does.
        whole_attention: tensor parallelism leaves attention alone, every rank computes all heads.
        source: the file that shows it.
    """

    broadcast_heads: bool = False
    all_full: bool = False
    window_offset: int = 0
    in_modules: bool = False
    own_cache: str | None = None
    linear_cache: str | None = None
    slides: str | None = None
    whole_attention: bool = False
    source: str = ""


PLAIN = Family()

_TABLE: dict[str, Family] = {
    "falcon": Family(
        broadcast_heads=True,
        source="modeling_falcon.py, _split_heads: broadcast_to(key, query.shape)",
    ),
    "gpt_neo": Family(
        all_full=True,
        source="configuration_gpt_neo.py names no window; local layers only mask",
    ),
    "mimo_v2_flash": Family(
        window_offset=1,
        source="configuration_mimo_v2_flash.py: sliding_window = sliding_window_size + 1",
    ),
    "recurrent_gemma": Family(
        in_modules=True,
        source="modeling_recurrent_gemma.py: conv1d_state and rg_lru.recurrent_states",
    ),
    "minimax": Family(
        own_cache="MiniMaxCache",
        linear_cache="linear_cache",
        source="modeling_minimax.py, MiniMaxCache",
    ),
    "qwen3_moe": Family(
        slides="all",
        source="configuration_qwen3_moe.py has no layer_types, so sliding_window holds everywhere",
    ),
    "qwen2_moe": Family(
        slides="even",
        source="configuration_qwen2_moe.py: (i + 1) % 2 and i < max_window_layers",
    ),
}
# Classes with latents whose base_model_tp_plan names no projection of attention.
for _name in (
    "axk1", "bailing_hybrid", "deepseek_v3", "kimi_linear", "mistral4", "mistral_large4",
    "sarvam_mla", "youtu",
):  # fmt: skip
    _TABLE[_name] = Family(
        whole_attention=True, source=f"configuration_{_name}.py, base_model_tp_plan"
    )
_TABLE["RefinedWeb"] = _TABLE["falcon"]
_TABLE["RefinedWebModel"] = _TABLE["falcon"]


def family_of(model_type: str | None) -> Family:
    """The table's row for a model_type, or the plain one."""
    return _TABLE.get(model_type or "", PLAIN)


def as_class_reads(spec: ModelSpec, family: Family) -> ModelSpec:
    """The spec with the layers that slide where the class of transformers says they do."""
    sliding = [
        name
        for name in dict.fromkeys(spec.layers)
        if any(isinstance(state, SlidingAttention) for state in spec.kinds[name])
    ]
    full = [name for name in dict.fromkeys(spec.layers) if name not in sliding]
    if family.slides is None or len(sliding) != 1 or len(full) > 1:
        return spec
    if family.slides == "all":
        return spec.replaced(layers=(sliding[0],) * len(spec.layers))
    if not full:  # max_window_layers is 0: no layer is before it
        return spec
    first = spec.layers.index(sliding[0])
    names = (
        sliding[0] if index % 2 == 0 and index < first else full[0]
        for index in range(len(spec.layers))
    )
    return spec.replaced(layers=tuple(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Legacy:
    """The own cache class of one recurrent family in 4.57.6.

    Attributes:
        cache: its name.
        float32: the matrix ends up in float32; else in the model's format.
        conv, matrix, keys, values: the names of its lists of tensors.
        conv_everywhere: attention layers get convolution columns too.
    """

    cache: str
    float32: bool = False
    conv: str = "conv_states"
    matrix: str = "ssm_states"
    keys: str = "key_cache"
    values: str = "value_cache"
    conv_everywhere: bool = False


_HYBRID = "HybridMambaAttentionDynamicCache"

# transformers 4.57.6, models/*/modeling_*.py. Jamba and Zamba replace the matrix by their float32
# result in the plain PyTorch path (measured); with the CUDA kernels they copy it into the tensor
# allocated in the model's format.
LEGACY: dict[str, Legacy] = {
    "bamba": Legacy(cache=_HYBRID),
    "falcon_h1": Legacy(cache="FalconHybridMambaAttentionDynamicCache"),
    "falcon_mamba": Legacy(cache="FalconMambaCache"),
    "granitemoehybrid": Legacy(cache=_HYBRID),
    "jamba": Legacy(cache=_HYBRID, float32=True),
    "lfm2": Legacy(cache="Lfm2HybridConvCache", conv="conv_cache", conv_everywhere=True),
    "lfm2_moe": Legacy(cache="Lfm2HybridConvCache", conv="conv_cache", conv_everywhere=True),
    "mamba": Legacy(cache="MambaCache"),
    "mamba2": Legacy(cache="Mamba2Cache"),
    "minimax": Legacy(cache="MiniMaxCache", keys="keys", values="values"),
    "qwen3_next": Legacy(cache="Qwen3NextDynamicCache", float32=True, matrix="recurrent_states"),
    "zamba": Legacy(cache="ZambaHybridDynamicCache", float32=True),
    "zamba2": Legacy(cache="Zamba2HybridDynamicCache"),
}
