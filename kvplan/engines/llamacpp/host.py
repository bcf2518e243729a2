"""Host memory that grows beside a context: outputs, checkpoints of slots, prompts of the past.

    output buffer   vocabulary x 4 bytes x slots
    checkpoint      what a prompt cannot be rolled back to otherwise: the recurrent state of one
                    sequence, and its window in the caches of windows
    prompt cache    whole states of earlier prompts, up to --cache-ram

Checkpoints are made as prompts are read, so they are a most, not a start. None of them is counted
by the engine's own --fit.
Source: llama.cpp b11434, src/llama-context.cpp, tools/server/server-context.cpp, server-task.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.llamacpp.caches import Cache
from kvplan.engines.llamacpp.context import Context
from kvplan.units import MIB

FLOAT = 4


class HostMemory(NamedTuple):
    """Bytes on the host; None where a fact of the model is not known.

    Attributes:
        output_bytes: logits of each slot.
        checkpoint_bytes: one checkpoint of one slot, at its most.
        checkpoints: as many as are kept of all slots.
        checkpoints_bytes: all of them.
        prompt_cache_bytes: the limit of the prompt cache; None without a limit.
    """

    output_bytes: int | None
    checkpoint_bytes: int
    checkpoints: int
    checkpoints_bytes: int
    prompt_cache_bytes: int | None


def host_memory(
    caches: Sequence[Cache],
    context: Context,
    *,
    vocabulary: int | None,
    checkpoints: int,
    cache_ram: int,
) -> HostMemory:
    """The host memory beside these caches."""
    each = 0
    for cache in caches:
        if cache.name == "rs":
            each += sum(cache.k_rows) + sum(cache.v_rows)
        elif cache.name == "kv_swa" and cache.cells < context.n_ctx_seq:
            # Cells outside the window are not saved.
            cells = min(cache.window or cache.cells, context.n_ctx_seq)
            each += (sum(cache.k_rows) + sum(cache.v_rows)) * cells
    kept = checkpoints * context.n_seq_max if each else 0
    return HostMemory(
        output_bytes=None if vocabulary is None else vocabulary * FLOAT * context.n_seq_max,
        checkpoint_bytes=each,
        checkpoints=kept,
        checkpoints_bytes=each * kept,
        prompt_cache_bytes=None if cache_ram < 0 else cache_ram * MIB,
    )
