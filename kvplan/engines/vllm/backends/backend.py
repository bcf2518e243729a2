"""What one attention backend accepts, and what speaks against it, in vLLM's order of checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan.engines.vllm.backends.query import AttentionQuery

# Formats that most backends take: of the model, and of the cache.
HALVES = ("float16", "bfloat16")
NATIVE = ("auto", "float16", "bfloat16")
WITH_FP8 = (*NATIVE, "fp8", "fp8_e4m3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One backend.

    Attributes:
        name: vLLM's name.
        block_sizes: kernel block sizes.
        multiples: any multiple of a block size is a kernel block too; else only the sizes.
        dtypes: model formats.
        cache_dtypes: --kv-cache-dtype values; None: it decides itself (see `takes_cache_dtype`).
        mla, sparse: for latent caches; for sparse attention.
        sliding, image_prefix: serves sliding windows; bidirectional image tokens.
        attention_types: of layers: decoder, encoder_decoder.
        head_sizes: accepted head sizes, () for any.
        on: compute capabilities it runs on, by major number; () for any.
        takes_head_size, takes_cache_dtype, takes_sinks: where a rule is more than a list.
        combination: the code of a reason against a whole query, or None.
        sizes_on: block sizes that depend on the query.
        layouts: KV cache layouts its kernels read, best first; None for any.
    """

    name: str
    block_sizes: tuple[int, ...] = (16,)
    multiples: bool = True
    dtypes: tuple[str, ...] = HALVES
    cache_dtypes: tuple[str, ...] = NATIVE
    mla: bool = False
    sparse: bool = False
    sliding: bool = False
    image_prefix: Callable[[AttentionQuery], bool] = lambda query: False
    attention_types: tuple[str, ...] = ("DECODER",)
    head_sizes: tuple[int, ...] = ()
    on: tuple[int, ...] = ()
    takes_head_size: Callable[[AttentionQuery], bool] | None = None
    takes_cache_dtype: Callable[[AttentionQuery], bool] | None = None
    takes_sinks: Callable[[AttentionQuery], bool] = lambda query: False
    combination: Callable[[AttentionQuery], str | None] = lambda query: None
    sizes_on: Callable[[AttentionQuery], tuple[tuple[int, ...], bool] | None] = lambda query: None
    layouts: Callable[[AttentionQuery], tuple[str, ...] | None] = lambda query: None

    def kernel_blocks(self, query: AttentionQuery) -> tuple[tuple[int, ...], bool]:
        """(block sizes, multiples allowed) for this query."""
        return self.sizes_on(query) or (self.block_sizes, self.multiples)

    def accepts_block(self, block_size: int | None, query: AttentionQuery) -> bool:
        """Whether a block of the cache manager can be cut into this backend's kernel blocks."""
        if block_size is None:
            return True
        return any(block_size % size == 0 for size in self.kernel_blocks(query)[0])

    def reasons_against(self, query: AttentionQuery) -> tuple[str, ...]:
        """Codes of what this backend lacks, in vLLM's order; () when it may be used."""
        found = []
        size_ok = (
            self.takes_head_size(query)
            if self.takes_head_size
            else not self.head_sizes or query.head_size in self.head_sizes
        )
        if not size_ok:
            found.append("head-size")
        if query.dtype not in self.dtypes:
            found.append("dtype")
        cache_ok = (
            self.takes_cache_dtype(query)
            if self.takes_cache_dtype
            else query.cache_dtype in self.cache_dtypes
        )
        if not cache_ok:
            found.append("kv-cache-dtype")
        if not self.accepts_block(query.block_size, query):
            found.append("block-size")
        if query.image_prefix and not self.image_prefix(query):
            found.append("image-prefix")
        if query.mla != self.mla:
            found.append("latent" if query.mla else "latent-only")
        if query.sinks and not self.takes_sinks(query):
            found.append("attention-sinks")
        if query.sparse != self.sparse:
            found.append("sparse" if query.sparse else "sparse-only")
        if self.on and query.gpu.major not in self.on:
            found.append("device")
        if query.attention_type not in self.attention_types:
            found.append("attention-type")
        if query.sliding and not self.sliding:
            found.append("sliding-window")
        reason = self.combination(query)
        if reason is not None:
            found.append(reason)
        return tuple(found)
