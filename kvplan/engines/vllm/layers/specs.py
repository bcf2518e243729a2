"""One layer's cache as vLLM sees it: the bytes of a page, and the blocks one request needs.

    page        rows of a block x bytes of a row, or all of a recurrent state
    full, MLA   ceil(L / B)                                     with DCP: L / dcp first
    sliding     ceil(min(window - 1 + extra + F, L) / B) + 1    the window may start inside a block
    chunked     ceil(min(chunk + F, L) / B)
    state       2 + draft tokens + 1 if it checkpoints inside a prefill; 1 + draft tokens without
                prefix caching
    cross       ceil(T / B), whatever the encoder really emits

L is the length, B the block size, T max_num_batched_tokens, F the tokens in flight: T for every
batch that may run at once. Bytes are per rank. Source: vllm 0.33.0, v1/kv_cache_interface.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

FULL, LATENT, SLIDING, SLIDING_LATENT = "full", "mla", "sliding", "sliding_mla"
CHUNKED, STATE, CROSS = "chunked", "state", "cross"

_LIKE_FULL = frozenset((FULL, LATENT))
_LIKE_SLIDING = frozenset((SLIDING, SLIDING_LATENT))


def ceil_div(count: int, size: int) -> int:
    """How many pieces of `size` cover `count`."""
    return -(-count // size)


def round_up(count: int, multiple: int) -> int:
    """`count` rounded up to a multiple."""
    return ceil_div(count, multiple) * multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one request brings: its length, and what may be in flight.

    Attributes:
        length: tokens of the request (max_model_len).
        in_flight: tokens scheduled but not settled (T x batches in flight).
        batched: max_num_batched_tokens.
        dcp: ranks of decode context parallelism.
        caches_states: prefix caching keeps states at block boundaries ("align").
        state_blocks_follow_length: an old rule, see `versions`.
    """

    length: int
    in_flight: int
    batched: int
    dcp: int
    caches_states: bool
    state_blocks_follow_length: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """The cache of one layer (or of one of its states).

    Attributes:
        kind: full, mla, sliding, sliding_mla, chunked, state or cross.
        block_size: tokens of one block.
        row_bytes: bytes of one row: one token, or `tokens_per_row`; of the whole state for `state`.
        tokens_per_row: tokens that share a row (DeepSeek V4's compressed rows).
        identity: what else must be equal for two layers to share a group: shape, format, role.
        window, chunk: tokens of a sliding window or of a chunk.
        extra_retained: tokens kept below the window for multi-module drafting.
        padded: page size after padding, None for the natural one.
        row_alignment: natural pages are rounded up to this (DeepSeek V4).
        stride_bytes: blocks of one layer lie a multiple of this apart.
        stride_tokens: ... or a multiple of the pages of kernel blocks up to this many tokens.
        draft_blocks, checkpoint_blocks: further state blocks of one request.
        shape: per-token shape, for display: (heads, elements) or the states' shapes.
        element: torch name of the elements, for display.
    """

    kind: str
    block_size: int
    row_bytes: int
    identity: tuple[object, ...]
    tokens_per_row: int = 1
    window: int | None = None
    chunk: int | None = None
    extra_retained: int = 0
    padded: int | None = None
    row_alignment: int | None = None
    stride_bytes: int = 0
    stride_tokens: int = 0
    draft_blocks: int = 0
    checkpoint_blocks: int = 0
    shape: tuple[tuple[int, ...], ...] = ()
    element: str = "uint8"

    @property
    def natural_page(self) -> int:
        """Bytes of one block's rows."""
        if self.kind == STATE:
            return self.row_bytes
        return self.row_bytes * (self.block_size // self.tokens_per_row)

    @property
    def page(self) -> int:
        """Bytes one block takes in this layer, padding included."""
        if self.padded is not None:
            return self.padded
        if self.row_alignment is not None:
            return round_up(self.natural_page, self.row_alignment)
        return self.natural_page

    @property
    def stride_alignment(self) -> int:
        """Bytes that the distance between two blocks must be a multiple of."""
        if self.stride_bytes:
            return self.stride_bytes
        if self.stride_tokens:
            kernel = gcd(self.stride_tokens, self.block_size)
            if kernel != self.block_size:
                return max(1, replace(self, block_size=kernel, padded=None).page)
        return 1

    @property
    def stride(self) -> int:
        """Distance between two blocks of this layer where layers are outermost."""
        return round_up(self.page, self.stride_alignment)

    @property
    def like_full(self) -> bool:
        """Blocks are kept for every token."""
        return self.kind in _LIKE_FULL

    @property
    def like_sliding(self) -> bool:
        """Blocks below a window are freed."""
        return self.kind in _LIKE_SLIDING

    def with_block_size(self, block_size: int) -> CacheSpec:
        """The same rows in blocks of another size."""
        return replace(self, block_size=block_size)

    def padded_to(self, page: int) -> CacheSpec:
        """The same block in a larger page."""
        return replace(self, padded=page)

    def as_full(self, block_size: int) -> CacheSpec:
        """A windowed layer kept like a full one; it remembers its window only for display."""
        padded = self.padded
        if padded is not None:
            padded = max(padded, self.natural_page * block_size // self.block_size)
        return replace(
            self, kind=FULL, block_size=block_size, padded=padded, window=None, chunk=None,
            extra_retained=0,
        )  # fmt: skip

    def blocks(self, load: Load) -> int:
        """Blocks that one request of `load` needs in a group of this layer."""
        size = self.block_size
        if self.kind in _LIKE_FULL:
            return ceil_div(ceil_div(load.length, load.dcp), size)
        if self.window is not None:
            held = min(self.window - 1 + self.extra_retained + load.in_flight, load.length)
            return ceil_div(held, size) + 1
        if self.chunk is not None:
            return ceil_div(min(self.chunk + load.in_flight, load.length), size)
        if self.kind == CROSS:
            return ceil_div(load.batched, size)
        if load.state_blocks_follow_length:
            return ceil_div(load.length, size) if load.caches_states else 1
        if load.caches_states:
            return 2 + self.draft_blocks + self.checkpoint_blocks
        return 1 + self.draft_blocks

    def is_uniform_with(self, others: tuple[CacheSpec, ...]) -> bool:
        """Whether all need the same number of token slots, whatever their page sizes."""
        if any(other.block_size != self.block_size for other in others):
            return False
        if self.like_full:
            return all(other.like_full for other in others)
        if self.like_sliding:
            return all(other.like_sliding and other.window == self.window for other in others) and (
                self.kind == SLIDING or all(other.kind == SLIDING_LATENT for other in others)
            )
        if self.kind == CHUNKED:
            return all(other.kind == CHUNKED and other.chunk == self.chunk for other in others)
        if self.kind == STATE:
            return all(
                other.kind == STATE
                and other.page == self.page
                and other.draft_blocks == self.draft_blocks
                and other.checkpoint_blocks == self.checkpoint_blocks
                for other in others
            )
        return all(other.kind == self.kind for other in others)
