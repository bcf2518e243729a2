"""What vLLM asks when it looks for an attention backend for one kind of layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.vllm.facts.gpus import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionQuery:
    """One question to the backend table.

    Attributes:
        gpu: the kind of GPU.
        head_size, head_size_v: elements of a K and of a V vector (MLA: of the latent).
        dtype, cache_dtype: model format; --kv-cache-dtype value of this layer.
        cache_is_quantized: the value is none of auto, float16, bfloat16.
        block_size: --block-size as the user gave it, else None.
        mla, sparse, sinks, image_prefix, sliding: what the layer needs.
        attention_type: DECODER or ENCODER_DECODER.
        heads: query heads of one rank.
        model_heads: (query heads, KV heads) of one rank, of the model as a whole.
        qk_nope_head_dim, kv_lora_rank, qk_rope_head_dim: dimensions of a latent.
        forced_flash_version: FlashAttention version the configuration insists on.
        forced_backend: backend the configuration insists on.
        run_quantized: the run's own --kv-cache-dtype is quantised, whatever this layer's is.
        dcp: decode context parallelism is on.
        composites, wide_fp8_blocks, latent_fp8_from_ada: rules of the release, see `versions`.
    """

    gpu: Gpu
    head_size: int
    head_size_v: int
    dtype: str
    cache_dtype: str
    cache_is_quantized: bool
    block_size: int | None = None
    mla: bool = False
    sparse: bool = False
    sinks: bool = False
    image_prefix: bool = False
    sliding: bool = False
    attention_type: str = "DECODER"
    heads: int = 0
    model_heads: tuple[int, int] = (0, 0)
    qk_nope_head_dim: int = 1
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    forced_flash_version: int | None = None
    forced_backend: str | None = None
    run_quantized: bool = False
    dcp: bool = False
    composites: bool = True
    wide_fp8_blocks: bool = True
    latent_fp8_from_ada: bool = True

    def without_image_prefix(self) -> AttentionQuery:
        """The same question about causal attention only."""
        return replace(self, image_prefix=False)
