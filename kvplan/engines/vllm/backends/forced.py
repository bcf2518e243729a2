"""Block sizes before vllm 0.18: 16 or --block-size, and what the platform forces on MLA.

    up to 0.7.3   nothing
    flashmla      0.8.0 to 0.10.0: 64 on Hopper, whatever --block-size says; 16 elsewhere
    cutlass       0.10.1 to 0.11.0: the same, and 128 on SM100
    multiples     0.11.1 to 0.14: the same, but a --block-size that is a multiple is kept
    flashinfer    0.15 to 0.17: SM100 64 (32 is kept), or 128 where a head's nope part is not 128

Sparse attention (DSA) takes 64 everywhere.
Source: vllm 0.8.5 to 0.17.0, platforms/cuda.py check_and_update_config.
"""

from __future__ import annotations

from kvplan.engines.vllm.facts.gpus import Gpu

_BY_BACKEND = {"FLASHMLA": 64, "FLASHINFER_MLA": 64, "CUTLASS_MLA": 128}


def forced_block(
    rule: str, gpu: Gpu, size: int, *, sparse: bool, nope: int, backend: str | None
) -> int:
    """The block size of latents.

    Args:
        rule: of the release, see above; "" for none.
        size: --block-size, or 16.
        sparse: attention reads tokens that an indexer chose.
        nope: elements of a head's part without rotation.
        backend: --attention-backend, where it is given.
    """
    if not rule:
        return size
    if sparse and rule != "flashmla":
        return 64
    wanted = _BY_BACKEND.get(backend or "", 0) if backend else _by_gpu(rule, gpu, nope)
    if not wanted or (rule == "flashinfer" and wanted == 64 and gpu.major == 10 and size == 32):
        return size
    keeps = rule in ("multiples", "flashinfer") and size % wanted == 0
    return size if keeps else wanted


def _by_gpu(rule: str, gpu: Gpu, nope: int) -> int:
    if gpu.major == 9:
        return 64
    if gpu.major == 10 and rule in ("cutlass", "multiples"):
        return 128
    if gpu.major == 10 and rule == "flashinfer":
        return 64 if nope == 128 else 128
    return 0
