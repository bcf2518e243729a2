"""vLLM's attention backends as data: what each accepts, in which block sizes, on which GPU.

    FLASH_ATTN, TRITON_ATTN, FLEX_ATTENTION      multiples of 16
    FLASHINFER                                   16, 32, 64 (and 128 .. 1024 on SM10x with GQA)
    FLASH_ATTN_MLA, TRITON_MLA                   multiples of 16
    FLASHMLA 64, FLASHINFER_MLA 32 or 64, CUTLASS_MLA 128, sparse MLA 64

FlashInfer, FlashMLA and FlashAttention 3 and 4 are taken to be installed, as in vLLM's own images.
Source: vllm 0.33.0, v1/attention/backends/*.py and v1/attention/backends/mla/*.py.
"""

from __future__ import annotations

from kvplan.engines.vllm.backends.backend import HALVES, WITH_FP8, Backend
from kvplan.engines.vllm.backends.flash_attn import flash_attn_4, flash_version, serves_cache_dtype
from kvplan.engines.vllm.backends.query import AttentionQuery

_EVERY_TYPE = ("DECODER", "ENCODER", "ENCODER_ONLY", "ENCODER_DECODER")


def _fp8_unserved(query: AttentionQuery) -> str | None:
    if query.cache_is_quantized and not serves_cache_dtype(query):
        return "fp8-in-flash-attention"
    return None


def _flash_attn_combination(query: AttentionQuery) -> str | None:
    if query.sinks and query.gpu.capability < (9, 0):
        return "attention-sinks-on-device"
    if query.image_prefix and query.cache_is_quantized and query.gpu.capability == (9, 0):
        return "fp8-with-image-prefix"
    if (reason := _fp8_unserved(query)) is not None:
        return reason
    if query.image_prefix and flash_version(query, whole_query=True) != 4:
        return "image-prefix-without-flash-attention-4"
    return None


def _flash_attn_sizes(query: AttentionQuery) -> tuple[tuple[int, ...], bool] | None:
    if (
        query.gpu.major == 9
        and query.wide_fp8_blocks
        and query.cache_dtype in ("fp8", "fp8_e4m3")
        and query.head_size == 512
        and flash_version(query, whole_query=True) == 4
    ):
        return (64,), False
    if query.head_size == 256 and query.gpu.major in (10, 11):
        return ((128,), False) if flash_version(query, whole_query=True) == 4 else None
    return None


FLASH_ATTN = Backend(
    name="FLASH_ATTN",
    cache_dtypes=WITH_FP8,
    sliding=True,
    image_prefix=lambda query: flash_attn_4(query.gpu),
    attention_types=_EVERY_TYPE,
    takes_head_size=lambda query: (
        query.head_size % 8 == 0 and query.head_size <= (512 if flash_attn_4(query.gpu) else 256)
    ),
    takes_cache_dtype=lambda query: (
        query.cache_dtype in WITH_FP8
        and (not query.cache_is_quantized or serves_cache_dtype(query, by_head_size=False))
    ),
    takes_sinks=lambda query: flash_version(query) in (3, 4),
    on=(8, 9, 10, 11, 12),
    combination=_flash_attn_combination,
    sizes_on=_flash_attn_sizes,
)


def _flashinfer_sizes(query: AttentionQuery) -> tuple[tuple[int, ...], bool]:
    heads, kv_heads = query.model_heads
    if query.gpu.major == 10 and kv_heads > 0 and heads // kv_heads > 1 and heads % kv_heads == 0:
        return (16, 32, 64, 128, 256, 512, 1024), False
    return (16, 32, 64), False


def _flashinfer_cache_dtype(query: AttentionQuery) -> bool:
    if query.cache_dtype.startswith("nvfp4") and query.cache_dtype != "nvfp4_ds_mla":
        if query.gpu.major in (8, 9, 12):
            return query.cache_dtype == "nvfp4"
        return query.gpu.major == 10
    return query.cache_dtype in (*WITH_FP8, "fp8_e5m2")


def _flashinfer_combination(query: AttentionQuery) -> str | None:
    if query.cache_dtype.startswith("nvfp4") and query.gpu.major in (8, 9, 12):
        if query.head_size == 64:
            return "nvfp4-at-head-size-64"
        if query.sinks:
            return "nvfp4-with-attention-sinks"
    return None


FLASHINFER = Backend(
    name="FLASHINFER",
    block_sizes=(16, 32, 64),
    multiples=False,
    sliding=True,
    head_sizes=(64, 128, 256, 512),
    takes_cache_dtype=_flashinfer_cache_dtype,
    takes_sinks=lambda query: query.gpu.capability == (9, 0) or query.gpu.major in (10, 12),
    on=(8, 9, 10, 11, 12),
    combination=_flashinfer_combination,
    sizes_on=_flashinfer_sizes,
    layouts=lambda query: ("LBHNC", "BLHNC") if query.gpu.major == 10 else None,
)

TRITON_ATTN = Backend(
    name="TRITON_ATTN",
    dtypes=(*HALVES, "float32"),
    cache_dtypes=(
        *WITH_FP8, "fp8_e5m2", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head",
    ),
    sliding=True,
    image_prefix=lambda query: True,
    attention_types=_EVERY_TYPE,
    takes_head_size=lambda query: query.head_size >= 32,
    takes_sinks=lambda query: True,
)  # fmt: skip

FLEX_ATTENTION = Backend(
    name="FLEX_ATTENTION",
    dtypes=(*HALVES, "float32"),
    sliding=True,
    image_prefix=lambda query: True,
    attention_types=("DECODER", "ENCODER_ONLY"),
    layouts=lambda query: ("LBNHC",),
)

TURBOQUANT = Backend(
    name="TURBOQUANT",
    block_sizes=(16, 32, 64, 128),
    multiples=False,
    cache_dtypes=(
        "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc",
    ),
    layouts=lambda query: ("LBNHC",),
)  # fmt: skip


def _composite_combination(query: AttentionQuery) -> str | None:
    """TRITON_FLASH_ATTN: Triton takes the image masks, FlashAttention the causal rest."""
    causal = query.without_image_prefix()
    reason = _flash_attn_combination(causal)
    if reason is None and flash_version(causal, whole_query=True) not in (3, 4):
        reason = "causal-part-without-flash-attention-3"
    return reason


TRITON_FLASH_ATTN = Backend(
    name="TRITON_FLASH_ATTN",
    head_sizes=(256, 512),
    sliding=True,
    image_prefix=lambda query: True,
    takes_cache_dtype=lambda query: (
        FLASH_ATTN.takes_cache_dtype is not None and FLASH_ATTN.takes_cache_dtype(query)
    ),
    on=(9,),
    combination=_composite_combination,
    sizes_on=lambda query: _flash_attn_sizes(query.without_image_prefix()),
)

TRITON_FLASHINFER = Backend(
    name="TRITON_FLASHINFER",
    block_sizes=(64,),
    multiples=False,
    head_sizes=(256, 512),
    sliding=True,
    image_prefix=lambda query: True,
    cache_dtypes=(*WITH_FP8, "fp8_e5m2"),
    on=(10,),
    layouts=lambda query: ("LBHNC", "BLHNC"),
)

DIFFKV = Backend(
    name="FLASH_ATTN_DIFFKV",
    cache_dtypes=WITH_FP8,
    sliding=True,
    takes_sinks=lambda query: True,
)
