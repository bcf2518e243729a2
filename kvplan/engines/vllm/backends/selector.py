"""Which backend vLLM picks for a layer, or its refusal when none will do.

The first backend of the GPU generation's list that has nothing against the query wins
(vllm 0.33.0, platforms/cuda.py _get_backend_priorities and get_attn_backend_cls).
"""

from __future__ import annotations

from functools import lru_cache

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.backends import latent, plain
from kvplan.engines.vllm.backends.backend import Backend
from kvplan.engines.vllm.backends.query import AttentionQuery
from kvplan.errors import UsageError


def priorities(query: AttentionQuery) -> tuple[Backend, ...]:
    """Backends in the order in which they are tried."""
    if query.mla:
        return _latent_priorities(query)
    if query.gpu.major == 10:
        first = (plain.TRITON_FLASHINFER,) if query.image_prefix and query.composites else ()
        return (
            *first, plain.FLASHINFER, plain.FLASH_ATTN, plain.TRITON_ATTN, plain.FLEX_ATTENTION,
            plain.TURBOQUANT,
        )  # fmt: skip
    hopper = query.composites and query.gpu.major == 9
    first = (plain.TRITON_FLASH_ATTN,) if query.image_prefix and hopper else ()
    return (
        *first, plain.FLASH_ATTN, plain.FLASHINFER, plain.TRITON_ATTN, plain.FLEX_ATTENTION,
        plain.TURBOQUANT,
    )  # fmt: skip


def _latent_priorities(query: AttentionQuery) -> tuple[Backend, ...]:
    if query.gpu.major == 10:
        sparse: tuple[Backend, ...]
        if query.cache_is_quantized:
            sparse = (latent.FLASHINFER_MLA_SPARSE, latent.FLASHMLA_SPARSE)
        elif query.heads <= 16:
            sparse = (
                latent.FLASH_ATTN_MLA_SPARSE_FA4,
                latent.FLASHINFER_MLA_SPARSE,
                latent.FLASHMLA_SPARSE,
            )
        else:
            sparse = (latent.FLASHMLA_SPARSE, latent.FLASHINFER_MLA_SPARSE)
        return (
            latent.FLASHINFER_MLA, latent.TOKENSPEED_MLA, latent.CUTLASS_MLA,
            latent.FLASH_ATTN_MLA, latent.FLASHMLA, latent.TRITON_MLA, *sparse,
        )  # fmt: skip
    if query.gpu.major == 12:
        return latent.TRITON_MLA, latent.FLASHINFER_MLA_SPARSE_SM120
    tail = (latent.FLASH_ATTN_MLA_SPARSE, latent.FLASHMLA_SPARSE)
    sm90 = latent.FLASHINFER_MLA_SPARSE_SM90
    ordered = (sm90, *tail) if query.head_size == 512 else (*tail, sm90)
    return (
        latent.FLASH_ATTN_MLA, latent.FLASHMLA, latent.FLASHINFER_MLA, latent.TRITON_MLA, *ordered,
    )  # fmt: skip


# What --attention-backend may name.
_BY_NAME = {
    backend.name: backend
    for backend in (
        plain.FLASH_ATTN, plain.FLASHINFER, plain.TRITON_ATTN, plain.FLEX_ATTENTION,
        plain.TURBOQUANT, plain.TRITON_FLASH_ATTN, plain.TRITON_FLASHINFER,
        latent.FLASH_ATTN_MLA, latent.FLASHMLA, latent.FLASHINFER_MLA, latent.TOKENSPEED_MLA,
        latent.CUTLASS_MLA, latent.TRITON_MLA, latent.FLASH_ATTN_MLA_SPARSE,
        latent.FLASHMLA_SPARSE, latent.FLASHINFER_MLA_SPARSE, latent.FLASH_ATTN_MLA_SPARSE_FA4,
        latent.FLASHINFER_MLA_SPARSE_SM90, latent.FLASHINFER_MLA_SPARSE_SM120,
    )
}  # fmt: skip


def _named(name: str) -> Backend:
    if name not in _BY_NAME:
        raise UsageError(
            f"vllm --attention-backend {name} is not modelled",
            hint="one of " + ", ".join(sorted(_BY_NAME)),
        )
    return _BY_NAME[name]


@lru_cache(maxsize=4096)
def select(query: AttentionQuery) -> Backend:
    """The backend for a query.

    Raises:
        UsageError: a backend was named that is not modelled.
        Refused: vLLM finds no backend, or the one it finds cannot read fp8 on this GPU.
    """
    against: list[tuple[str, tuple[str, ...]]] = []
    chosen: Backend | None = None
    tried = priorities(query)
    if query.forced_backend is not None:
        tried = (_named(query.forced_backend),)
    for backend in tried:
        reasons = backend.reasons_against(query)
        if not reasons:
            chosen = backend
            break
        against.append((backend.name, reasons))
    if chosen is None:
        raise _none_serves(query, against)
    asked = chosen.name != "TRITON_MLA" or query.latent_fp8_from_ada
    if asked and chosen.name in _TRITON and query.gpu.capability < (8, 9):
        _check_triton_fp8(chosen, query)
    return chosen


# A flag whose other values might do, where nothing else speaks against a backend.
_FLAGS = {
    "kv-cache-dtype": "--kv-cache-dtype",
    "block-size": "--block-size",
    "dtype": "--dtype",
    "fp8-in-flash-attention": "--kv-cache-dtype",
}


def _none_serves(query: AttentionQuery, against: list[tuple[str, tuple[str, ...]]]) -> Refused:
    listed = ", ".join(f"{name} ({', '.join(reasons)})" for name, reasons in against)
    asked = f"head size {query.head_size}, {query.dtype}, --kv-cache-dtype {query.cache_dtype}"
    if query.block_size is not None:
        asked += f", --block-size {query.block_size}"
    which = "no attention backend" if query.forced_backend is None else "the backend asked for"
    verb = "serves" if query.forced_backend is None else "does not serve"
    would = [
        f"{name} would with another {_FLAGS[reasons[0]]}"
        for name, reasons in against
        if len(reasons) == 1 and reasons[0] in _FLAGS
    ]
    return Refused(
        "no-backend",
        "ValueError",
        f"{which} {verb} {asked} on {query.gpu.device_name}: " + "; ".join((listed, *would[:1])),
        head_size=query.head_size,
        dtype=query.dtype,
        kv_cache_dtype=query.cache_dtype,
        block_size=query.block_size,
        device=query.gpu.device_name,
        backends={name: list(reasons) for name, reasons in against},
    )


_TRITON = ("TRITON_ATTN", "TRITON_MLA")


def _check_triton_fp8(backend: Backend, query: AttentionQuery) -> None:
    if not query.cache_dtype.startswith("fp8"):
        return
    major, minor = query.gpu.capability
    suggested = "float16" if query.gpu.capability < (8, 0) else "bfloat16"
    raise Refused(
        "format-not-on-device",
        "ValueError",
        f"{backend.name} reads fp8 from compute capability 8.9 on, and {query.gpu.device_name} has "
        f"{major}.{minor}; give --kv-cache-dtype {suggested}",
        backend=backend.name,
        kv_cache_dtype=query.cache_dtype,
        device=query.gpu.device_name,
        capability=f"{major}.{minor}",
    )
