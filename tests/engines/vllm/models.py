"""Small specs for tests, with the dimensions of well-known models written out."""

from __future__ import annotations

from kvplan.engines.layout import CacheLayout
from kvplan.engines.request import Request
from kvplan.engines.vllm import VllmEngine
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet, Mamba2
from kvplan.spec.states import (
    FullAttention,
    Indexer,
    LatentAttention,
    SlidingAttention,
    State,
)

ENGINE = VllmEngine()
GIB = 1024**3


def model(
    layers: tuple[str, ...],
    kinds: dict[str, tuple[State, ...]],
    *,
    heads: int,
    model_type: str | None = None,
    architecture: str | None = None,
    max_context: int = 131072,
) -> ModelSpec:
    """A bfloat16 model of these layers."""
    return ModelSpec(
        name="model",
        dtype="bfloat16",
        heads=heads,
        model_type=model_type,
        architecture=architecture,
        max_context=max_context,
        kinds=kinds,
        layers=layers,
    )


MLA = LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128)

# 32 layers of 8 KV heads of 128: 4,096 bytes of one token in one layer.
LLAMA = model(
    ("full",) * 32, {"full": (FullAttention(kv_heads=8, head_dim=128),)}, heads=32,
    model_type="llama",
)  # fmt: skip

DEEPSEEK_V3 = model(("mla",) * 61, {"mla": (MLA,)}, heads=128, model_type="deepseek_v3")

# Every layer has an indexer of its own.
DEEPSEEK_V32 = model(
    ("sparse",) * 61, {"sparse": (MLA, Indexer(head_dim=128))}, heads=128,
    model_type="deepseek_v32",
)  # fmt: skip

# Five windows of 1,024, then one full layer; 62 layers: 52 windows, 10 full.
GEMMA_3_27B = model(
    (("local",) * 5 + ("global",)) * 10 + ("local",) * 2,
    {
        "local": (SlidingAttention(kv_heads=16, head_dim=128, window=1024),),
        "global": (FullAttention(kv_heads=16, head_dim=128),),
    },
    heads=32,
    model_type="gemma3_text",
    architecture="Gemma3ForConditionalGeneration",
)

# Three gated delta nets, then one full layer; 48 layers.
QWEN3_NEXT = model(
    (("linear",) * 3 + ("full",)) * 12,
    {
        "linear": (
            GatedDeltaNet(k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128, conv_kernel=4),
        ),
        "full": (FullAttention(kv_heads=2, head_dim=256),),
    },
    heads=16,
    model_type="qwen3_next",
    max_context=262144,
)

NEMOTRON_NANO = model(
    ("mamba",) * 23 + ("full",) * 6,
    {
        "mamba": (Mamba2(num_heads=64, head_dim=64, state_size=128, n_groups=8, conv_kernel=4),),
        "full": (FullAttention(kv_heads=2, head_dim=128),),
    },
    heads=32,
    model_type="nemotron_h",
    max_context=262144,
)


def size(
    spec: ModelSpec,
    ctx: int | None = None,
    *,
    batch: int = 1,
    tp: int = 1,
    pp: int = 1,
    dcp: int = 1,
    version: str = "0.33.0",
    **options: object,
) -> CacheLayout:
    """The pool that `batch` requests need."""
    request = Request(
        ctx=ctx, batch=batch, tp=tp, pp=pp, dcp=dcp,
        options={name: str(value) for name, value in options.items()},
    )  # fmt: skip
    return ENGINE.layout(spec, request, version)


def fit(
    spec: ModelSpec,
    available: int,
    ctx: int | None = None,
    *,
    tp: int = 1,
    version: str = "0.33.0",
    **options: object,
) -> CacheLayout:
    """vLLM's own plan for this many bytes of cache memory."""
    request = Request(ctx=ctx, tp=tp, options={name: str(value) for name, value in options.items()})
    return ENGINE.fit(spec, request, version, available)
