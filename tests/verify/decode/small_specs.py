"""Small models, one per way of keeping the past."""

from __future__ import annotations

from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    ShortConvolution,
)
from kvplan.spec.states import (
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    LatentAttention,
    SharedCache,
    SlidingAttention,
    State,
)

MHA = FullAttention(kv_heads=4, head_dim=8)
GQA = FullAttention(kv_heads=2, head_dim=8)
MQA = FullAttention(kv_heads=1, head_dim=16)
UNEVEN = FullAttention(kv_heads=2, head_dim=12, v_head_dim=8)
MLA = LatentAttention(kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8)
WINDOW = SlidingAttention(kv_heads=2, head_dim=8, window=20)
CHUNK = ChunkedAttention(kv_heads=2, head_dim=8, chunk=24)
CROSS = CrossAttention(kv_heads=2, head_dim=8)
GATED = GatedDeltaNet(k_heads=2, k_head_dim=8, v_heads=4, v_head_dim=6, conv_kernel=4)
KDA = KimiDeltaAttention(num_heads=2, head_dim=8, conv_kernel=4)
MAMBA1 = Mamba1(intermediate_size=12, state_size=4, conv_kernel=4)
MAMBA2 = Mamba2(num_heads=4, head_dim=6, state_size=8, n_groups=2, conv_kernel=4)
LIGHTNING = LightningAttention(num_heads=2, head_dim=8)
UNIT = LinearRecurrentUnit(width=12, conv_kernel=4)
SHORT = ShortConvolution(channels=16, conv_kernel=3)


def model(*layers: State | tuple[State, ...], **facts: object) -> ModelSpec:
    """A bfloat16 model of 4 query heads with one kind of layer per argument."""
    kinds = {
        f"kind{index}": states if isinstance(states, tuple) else (states,)
        for index, states in enumerate(layers)
    }
    given = {"name": "small", "dtype": "bfloat16", "heads": 4, **facts}
    return ModelSpec(kinds=kinds, layers=tuple(kinds), **given)


MODELS = {
    "mha": model(MHA),
    "gqa": model(GQA),
    "mqa": model(MQA),
    "uneven heads": model(UNEVEN),
    "mla": model(MLA),
    "sliding": model(WINDOW),
    "sliding and full": model(WINDOW, GQA),
    "chunked and full": model(CHUNK, GQA),
    "cross": model((GQA, CROSS), encoder_tokens=30),
    "shared": model(GQA, WINDOW, SharedCache(reads="kind0")),
    "gated delta net": model(GATED, GQA),
    "kda and mla": model(KDA, MLA),
    "mamba1": model(MAMBA1),
    "attention and mamba2 in one layer": model((GQA, MAMBA2)),
    "lightning": model(LIGHTNING, GQA),
    "rg-lru and window": model(UNIT, WINDOW),
    "short convolution": model(SHORT, GQA),
}
