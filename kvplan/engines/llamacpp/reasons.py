"""Sentences: why a context takes other bytes than the model's logical cache."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.llamacpp.caches import Cache, Formats
from kvplan.engines.llamacpp.context import Context
from kvplan.engines.llamacpp.host import HostMemory
from kvplan.notice import Notice
from kvplan.units import GIB, format_bytes

_LARGE = GIB  # host memory worth a warning


def reasons(
    caches: Sequence[Cache], context: Context, formats: Formats, host: HostMemory
) -> tuple[str, ...]:
    """What is stored, and why so many cells."""
    found = []
    slots = context.n_seq_max
    if slots > 1 and context.streams == 1:
        found.append(
            f"{slots} slots share {context.n_ctx:,} cells: together they hold that many tokens"
        )
    elif slots > 1:
        found.append(
            f"the context is divided: each of {slots} slots has {context.n_ctx_seq:,} cells,"
            f" a multiple of {context.padding}, {context.n_ctx:,} in all"
        )
    for cache in caches:
        if cache.name == "kv_swa" and cache.cells < context.n_ctx_seq:
            found.append(
                f"{len(cache.layers)} layers keep a window: {cache.cells:,} cells, one graph of"
                f" {context.n_ubatch} tokens among them"
            )
        elif cache.name == "rs":
            rows = cache.cells * cache.streams
            found.append(
                f"{len(cache.layers)} layers keep a float32 state, {rows} of each: one for each"
                " slot" + (f", and {cache.streams - 1} more to roll drafts back to"
                           if cache.streams > 1 else "")
            )  # fmt: skip
    if not formats.flash and any(cache.v_bytes for cache in caches):
        found.append("without flash attention every layer's V is as wide as the widest layer's")
    return tuple(found)


def checkpoint_notice(host: HostMemory) -> tuple[Notice, ...]:
    """A warning about checkpoints that may fill the host's memory."""
    if host.checkpoints_bytes < _LARGE:
        return ()
    message = (
        f"checkpoints may take {format_bytes(host.checkpoints_bytes)} of host memory:"
        f" {host.checkpoints} of {format_bytes(host.checkpoint_bytes)}; --ctx-checkpoints 8 keeps"
        " fewer"
    )
    return (Notice("host-checkpoints", message),)
