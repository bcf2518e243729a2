"""What llama.cpp does otherwise than the model: layers read as it reads them.

A model type is the `model_type` of a config.json or the architecture of a GGUF file; both are
listed. Windows that it does not use are kept whole, DeepSeek V4 always splits its streams, and only
some recurrent graphs keep snapshots to roll a draft back to.
Source: llama.cpp b11434, src/llama-model.cpp, src/llama-arch.cpp.
"""

from __future__ import annotations

from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec

# Families whose graphs never read a window, whatever the file says.
_WITHOUT_WINDOWS = frozenset((
    "llama", "mistral", "mixtral", "phi3", "phimoe", "starcoder2", "qwen2", "qwen2_moe", "qwen2moe",
    "qwen3", "qwen3_moe", "qwen3moe", "mistral3", "ministral", "granite", "glm4", "smollm3",
))  # fmt: skip
# Latents that are stored as heads: K of nope + rope elements, V of its own.
_LATENT_AS_HEADS = frozenset(("minicpm3",))
_COMPRESSED = frozenset(("deepseek4", "deepseek_v4", "deepseek_ref"))
_ROLLS_BACK = frozenset((
    "qwen35", "qwen35moe", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text",
    "kimi-k3", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe", "lfm2_moe", *_COMPRESSED,
))  # fmt: skip
# Graphs that need every stream to divide a step of 512 tokens, or that have one stream only.
_DIVIDES_STEP = frozenset(
    ("kimi-linear", "kimi_linear", "minimax-01", "minimax_text_01", "minimax")
)
# Files without the length of a value: it counts as the width divided by the heads.
_VALUE_OF_WIDTH = frozenset(("kimi-linear", "kimi_linear"))
_WITHOUT_DRAFTS = frozenset(("mimo2", "mimo_v2", "mimo_v2_flash"))
_WITHOUT_FLASH = frozenset(("grok", "grok-1"))
_ONE_STREAM = frozenset(("t5", "t5encoder"))


def as_read(spec: ModelSpec, *, draft: bool) -> list[tuple[kept.State, ...]]:
    """The layers of the model, or its draft layers, as llama.cpp's graph of the family keeps them.

    A draft context holds plain caches: an indexer of the draft layer is not used.
    """
    names = spec.draft_layers if draft else spec.layers
    return [
        tuple(
            _read(spec, state)
            for state in spec.kinds[name]
            if not (draft and isinstance(state, kept.Indexer))
        )
        for name in names
    ]


def _read(spec: ModelSpec, state: kept.State) -> kept.State:
    if isinstance(state, kept.SlidingAttention) and spec.model_type in _WITHOUT_WINDOWS:
        return kept.FullAttention(
            kv_heads=state.kv_heads, head_dim=state.head_dim, v_head_dim=state.v_head_dim,
            heads=state.heads,
        )  # fmt: skip
    if isinstance(state, kept.LatentAttention) and spec.model_type in _LATENT_AS_HEADS:
        head_dim = (state.qk_nope_head_dim or 0) + state.qk_rope_head_dim
        return kept.FullAttention(
            kv_heads=state.heads or spec.heads or 1, head_dim=head_dim,
            v_head_dim=state.v_head_dim or state.qk_nope_head_dim,
        )  # fmt: skip
    return state


def always_split(spec: ModelSpec) -> bool:
    """Each sequence gets a stream of its own, whatever --kv-unified says."""
    return any(isinstance(state, kept.CompressedLatent) for state in spec.states())


def rolls_back(spec: ModelSpec) -> bool:
    """States keep a snapshot for every draft token."""
    return spec.model_type in _ROLLS_BACK


def splits_into(spec: ModelSpec, streams: int, ubatch: int) -> bool:
    """Whether the graph can be cut into this many streams."""
    if streams == 1:
        return True
    if spec.model_type in _ONE_STREAM:
        return False
    return spec.model_type not in _DIVIDES_STEP or ubatch % streams == 0


def value_length(spec: ModelSpec, state: kept.LatentAttention) -> int:
    """Elements of a head's value as the file states it; a latent stores none."""
    if spec.model_type in _VALUE_OF_WIDTH and spec.hidden_size and spec.heads:
        return spec.hidden_size // spec.heads
    return state.v_head_dim or state.kv_lora_rank


def reads_drafts(spec: ModelSpec) -> bool:
    """Whether a draft context of the model's own layers can be made."""
    return spec.model_type not in _WITHOUT_DRAFTS


def flash_possible(spec: ModelSpec) -> bool:
    """Whether the family's attention can be flash attention; where not, it is switched off."""
    return spec.model_type not in _WITHOUT_FLASH
