"""vLLM's backends for latent (MLA) caches, dense and sparse, and the sparse layers' side caches.

Same rules of reading as `backends`; source: vllm 0.33.0, v1/attention/backends/mla/*.py,
models/deepseek_v4, models/minimax_m3.
"""

from __future__ import annotations

from kvplan.engines.vllm.backends.backend import NATIVE, WITH_FP8, Backend
from kvplan.engines.vllm.backends.query import AttentionQuery

_LATENT_SIZES = (320, 512, 576)


def _flash_attn_mla(query: AttentionQuery) -> str | None:
    return None if query.gpu.major == 9 else "device"


def _flash_attn_mla_sparse(query: AttentionQuery) -> str | None:
    if query.cache_dtype not in NATIVE:
        return "kv-cache-dtype"
    if (reason := _flash_attn_mla(query)) is not None:
        return reason
    if query.dcp:
        return "decode-context-parallelism"
    if not query.sparse:
        return "sparse-only"
    return None


def _flashmla(query: AttentionQuery) -> str | None:
    if query.sparse:
        if query.gpu.major in (9, 10):
            return None
        return "device"
    return None if query.gpu.major == 9 else "device"


def _flashinfer_mla(query: AttentionQuery) -> str | None:
    if query.qk_nope_head_dim in (64, 128, 192):
        return None
    return "nope-dim"


def _flashmla_sparse(query: AttentionQuery) -> str | None:
    if query.head_size == 512:
        plain = query.cache_dtype in (*NATIVE, "fp8_ds_mla")
        if not (plain and query.gpu.major == 9):
            return "head-size-with-kv-cache-dtype-or-device"
        if query.qk_rope_head_dim != 0:
            return "rope-dim"
    if query.cache_dtype == "nvfp4_ds_mla" and query.gpu.major != 10:
        return "kv-cache-dtype-on-device"
    return None


def _flashinfer_mla_sparse(query: AttentionQuery) -> str | None:
    if query.cache_dtype == "fp8_ds_mla":
        return "kv-cache-dtype"
    if query.qk_rope_head_dim == 0:
        if query.qk_nope_head_dim != 256 or query.kv_lora_rank != 512:
            return "latent-dims"
    elif query.qk_nope_head_dim not in (128, 192):
        return "nope-dim"
    if not query.sparse:
        return "sparse-only"
    return None


def _fa4_sparse(query: AttentionQuery) -> str | None:
    dims = (query.kv_lora_rank, query.qk_rope_head_dim)
    if dims != (512, 64):
        return "latent-dims"
    if query.heads not in (8, 16, 32, 64, 128):
        return "query-heads"
    return _flashinfer_mla_sparse(query)


def _sm90_sparse(query: AttentionQuery) -> str | None:
    if not query.sparse:
        return "sparse-only"
    if query.kv_lora_rank != 512:
        return "latent-dims"
    if query.qk_rope_head_dim not in (0, 64):
        return "rope-dim"
    return None


FLASH_ATTN_MLA = Backend(
    name="FLASH_ATTN_MLA", mla=True, head_sizes=_LATENT_SIZES, on=(9,), combination=_flash_attn_mla
)
FLASHMLA = Backend(
    name="FLASHMLA",
    block_sizes=(64,),
    multiples=False,
    cache_dtypes=WITH_FP8,
    mla=True,
    head_sizes=_LATENT_SIZES,
    on=(9, 10),
    combination=_flashmla,
)
FLASHINFER_MLA = Backend(
    name="FLASHINFER_MLA",
    block_sizes=(32, 64),
    multiples=False,
    cache_dtypes=WITH_FP8,
    mla=True,
    head_sizes=_LATENT_SIZES,
    on=(10,),
    combination=_flashinfer_mla,
)
TOKENSPEED_MLA = Backend(
    name="TOKENSPEED_MLA",
    block_sizes=(32, 64),
    multiples=False,
    cache_dtypes=("fp8", "fp8_e4m3"),
    mla=True,
    head_sizes=_LATENT_SIZES,
    on=(10,),
    combination=lambda query: "package-not-installed",
)
CUTLASS_MLA = Backend(
    name="CUTLASS_MLA",
    block_sizes=(128,),
    multiples=False,
    cache_dtypes=WITH_FP8,
    mla=True,
    head_sizes=_LATENT_SIZES,
    on=(10,),
)
TRITON_MLA = Backend(name="TRITON_MLA", cache_dtypes=WITH_FP8, mla=True)
FLASH_ATTN_MLA_SPARSE = Backend(
    name="FLASH_ATTN_MLA_SPARSE",
    block_sizes=(64,),
    mla=True,
    sparse=True,
    on=(9,),
    combination=_flash_attn_mla_sparse,
)
FLASHMLA_SPARSE = Backend(
    name="FLASHMLA_SPARSE",
    block_sizes=(64,),
    dtypes=("bfloat16",),
    cache_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"),
    mla=True,
    sparse=True,
    head_sizes=(576, 512),
    on=(9, 10),
    combination=_flashmla_sparse,
    sizes_on=lambda query: (
        ((64,), False) if query.gpu.major == 10 and query.cache_is_quantized else None
    ),
)
FLASHINFER_MLA_SPARSE = Backend(
    name="FLASHINFER_MLA_SPARSE",
    block_sizes=(32,),
    cache_dtypes=WITH_FP8,
    mla=True,
    sparse=True,
    head_sizes=(512, 576),
    on=(10,),
    combination=_flashinfer_mla_sparse,
)
FLASH_ATTN_MLA_SPARSE_FA4 = Backend(
    name="FLASH_ATTN_MLA_SPARSE_FA4",
    block_sizes=(64,),
    dtypes=("bfloat16",),
    cache_dtypes=("auto", "bfloat16"),
    mla=True,
    sparse=True,
    head_sizes=(576,),
    on=(10,),
    combination=_fa4_sparse,
)
FLASHINFER_MLA_SPARSE_SM90 = Backend(
    name="FLASHINFER_MLA_SPARSE_SM90",
    block_sizes=(64,),
    dtypes=("bfloat16",),
    cache_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"),
    mla=True,
    sparse=True,
    head_sizes=(512, 576),
    on=(9,),
    combination=_sm90_sparse,
)
FLASHINFER_MLA_SPARSE_SM120 = Backend(
    name="FLASHINFER_MLA_SPARSE_SM120",
    block_sizes=(64,),
    dtypes=("bfloat16",),
    cache_dtypes=("auto", "fp8", "fp8_e4m3", "fp8_ds_mla"),
    mla=True,
    sparse=True,
    head_sizes=(512, 576),
    on=(12,),
    combination=lambda query: None if query.sparse else "sparse-only",
)

# Side caches and families with kernels of their own; never searched for, only named.
INDEXER = Backend(name="DEEPSEEK_V32_INDEXER", block_sizes=(64,), multiples=False)
V4_WINDOW = Backend(name="DEEPSEEK_SPARSE_SWA", block_sizes=(32,))
V4_LATENT = Backend(
    name="FLASHMLA_SPARSE_DSV4",
    block_sizes=(256,),
    multiples=False,
    layouts=lambda query: ("BLHNC", "BLNHC"),
)
V4_INDEXER = Backend(
    name="DEEPSEEK_V4_INDEXER",
    block_sizes=(256,),
    multiples=False,
    layouts=lambda query: ("BLHNC", "BLNHC"),
)
M3_INDEXER = Backend(name="MINIMAX_M3_SPARSE_INDEXER", block_sizes=(128,), multiples=False)
M3_SPARSE = Backend(name="MINIMAX_M3_SPARSE", block_sizes=(128,), multiples=False)


def row_alignment(backend: Backend, query: AttentionQuery, row_bytes: int) -> tuple[int, int]:
    """What the distance between blocks must be a multiple of: (bytes, tokens of whole pages).

    Sparse kernels read flat rows, so blocks lie whole rows apart; kernels with fixed block sizes
    want whole kernel blocks (vllm 0.33.0, mla/sparse_utils.py, worker/utils.py).
    """
    sizes, multiples = backend.kernel_blocks(query)
    if backend.sparse and query.mla:
        if backend.name == "FLASHMLA_SPARSE" and query.cache_is_quantized and query.gpu.major != 10:
            return 0, 64
        rows = sizes[0] if backend.name.startswith("FLASHINFER_MLA_SPARSE_SM120") else 1
        if backend.name in ("FLASHINFER_MLA_SPARSE", "FLASH_ATTN_MLA_SPARSE_FA4"):
            rows = sizes[0]
        return rows * row_bytes, 0
    return (0, 0) if multiples else (0, max(sizes))
