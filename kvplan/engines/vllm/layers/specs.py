"""One layer's cache as vLLM sees it: the bytes of a page, and the blocks one request needs.

A class per kind, with two questions: `page`, and `steps`, from which `blocks` follows.

    page        rows of a block x bytes of a row, or all of a recurrent state
    full, MLA   ceil(L / B)                                     with DCP: L / dcp first
    sliding     ceil(min(window - 1 + extra + F, L) / B) + 1    the window may start inside a block
    chunked     ceil(min(chunk + F, L) / B)
    state       2 + draft tokens + 1 if it checkpoints inside a prefill; 1 + draft tokens without
                prefix caching; ceil(L / B) where every block keeps one
    cross       ceil(T / B), whatever the encoder really emits

L is the length, B the block size, T max_num_batched_tokens, F the tokens in flight: T for every
batch that may run at once. Bytes are per rank. Source: vllm 0.33.0, v1/kv_cache_interface.py.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any, ClassVar

from kvplan.arithmetic import ceil_div, round_up
from kvplan.steps import Steps, pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one request brings: its length, and what may be in flight.

    Attributes:
        length: tokens of the request (max_model_len).
        in_flight: tokens scheduled but not settled (T x batches in flight).
        batched: max_num_batched_tokens.
        dcp: ranks of decode context parallelism.
        states: how recurrent states are kept: once ("none"), at block boundaries ("align"), or for
            every block ("all").
        whole_prompts: a step takes a whole prompt, so `batched` is never less than the length.
    """

    length: int
    in_flight: int
    batched: int
    dcp: int
    states: str
    whole_prompts: bool = False

    @property
    def law(self) -> tuple[object, ...]:
        """All that steps depend on: everything but the length."""
        return (self.in_flight, self.batched, self.dcp, self.states, self.whole_prompts)

    def cap(self, kept: int) -> int | None:
        """Tokens that are held at once where only the last `kept` stay; None: all there are."""
        return None if self.whole_prompts else kept + self.in_flight


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """The cache of one layer (or of one of its states).

    Attributes:
        block_size: tokens of one block.
        row_bytes: bytes of one row: one token, or `tokens_per_row`; of a state all of it.
        tokens_per_row: tokens that share a row (DeepSeek V4's compressed rows).
        identity: what else must be equal for two layers to share a group: shape, format, role.
        padded: page size after padding, None for the natural one.
        row_alignment: natural pages are rounded up to this (DeepSeek V4).
        stride_bytes: blocks of one layer lie a multiple of this apart.
        stride_tokens: ... or a multiple of the pages of kernel blocks up to this many tokens.
        shape: per-token shape, for display: (heads, elements) or the states' shapes.
        element: torch name of the elements, for display.
    """

    kind: ClassVar[str]
    keeps_every_token: ClassVar[bool] = False  # full attention and latents
    frees_below_a_window: ClassVar[bool] = False

    block_size: int
    row_bytes: int
    identity: tuple[object, ...]
    tokens_per_row: int = 1
    padded: int | None = None
    row_alignment: int | None = None
    stride_bytes: int = 0
    stride_tokens: int = 0
    shape: tuple[tuple[int, ...], ...] = ()
    element: str = "uint8"

    @property
    def natural_page(self) -> int:
        """Bytes of one block's rows."""
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

    def steps(self, load: Load) -> Steps:
        """Blocks of one request in a group of this layer, by its tokens."""
        raise NotImplementedError

    def blocks(self, load: Load) -> int:
        """Blocks that one request of `load` needs in a group of this layer."""
        return self.steps(load).at(load.length)

    def tokens_per_block(self, length: int) -> int:
        """Tokens of one block, where the longest request has `length`."""
        return self.block_size

    def is_uniform_with(self, others: tuple[CacheSpec, ...]) -> bool:
        """Whether all need the same number of token slots, whatever their page sizes."""
        return all(
            other.block_size == self.block_size and self._same_slots(other) for other in others
        )

    def _same_slots(self, other: CacheSpec) -> bool:
        return other.kind == self.kind

    def grown(self, times: int) -> CacheSpec:
        """The same rows in blocks of so many times the tokens."""
        return replace(self, block_size=self.block_size * times)

    def padded_to(self, page: int) -> CacheSpec:
        """The same block in a larger page."""
        return replace(self, padded=page)

    def as_full(self, block_size: int) -> FullSpec:
        """The same rows as a full layer keeps them, all tokens, in blocks of another size."""
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(CacheSpec)}
        if self.padded is not None:
            values["padded"] = max(self.padded, self.natural_page * block_size // self.block_size)
        return FullSpec(**{**values, "block_size": block_size})


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSpec(CacheSpec):
    """K and V of every token."""

    kind: ClassVar[str] = "full"
    keeps_every_token: ClassVar[bool] = True

    def steps(self, load: Load) -> Steps:
        return Steps(0, (pieces(self.block_size * load.dcp),))

    def _same_slots(self, other: CacheSpec) -> bool:
        return other.keeps_every_token


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSpec(FullSpec):
    """One row per token (or per `tokens_per_row`), read flat: its page cannot be padded."""

    kind: ClassVar[str] = "mla"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingSpec(CacheSpec):
    """Tokens of a window; blocks below it are freed.

    Attributes:
        window: its tokens.
        extra_retained: tokens kept below the window for multi-module drafting.
    """

    kind: ClassVar[str] = "sliding"
    frees_below_a_window: ClassVar[bool] = True

    window: int
    extra_retained: int = 0

    @property
    def kept(self) -> int:
        """Earlier tokens that the next one still needs."""
        return self.window - 1 + self.extra_retained

    def steps(self, load: Load) -> Steps:
        return Steps(1, (pieces(self.block_size, cap=load.cap(self.kept)),))

    def _same_slots(self, other: CacheSpec) -> bool:
        return isinstance(other, SlidingSpec) and other.window == self.window


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingLatentSpec(SlidingSpec):
    """DeepSeek V4's windows and compressor states."""

    kind: ClassVar[str] = "sliding_mla"

    def _same_slots(self, other: CacheSpec) -> bool:
        return isinstance(other, SlidingLatentSpec) and other.window == self.window


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedSpec(CacheSpec):
    """Tokens of the current chunk.

    Attributes:
        chunk: tokens of one.
    """

    kind: ClassVar[str] = "chunked"

    chunk: int

    def steps(self, load: Load) -> Steps:
        return Steps(0, (pieces(self.block_size, cap=load.cap(self.chunk)),))

    def _same_slots(self, other: CacheSpec) -> bool:
        return isinstance(other, ChunkedSpec) and other.chunk == self.chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossSpec(CacheSpec):
    """K and V of the encoder's tokens."""

    kind: ClassVar[str] = "cross"

    def steps(self, load: Load) -> Steps:
        if load.whole_prompts:
            return Steps(0, (pieces(self.block_size, floor=load.batched),))
        return Steps(ceil_div(load.batched, self.block_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec(CacheSpec):
    """A recurrent state: one row, whatever the tokens.

    Attributes:
        block_size: tokens from one kept state to the next; 0 for a state that is kept once.
        lengths: of a state that is kept once: its block spans so many times the longest request.
        draft_blocks, checkpoint_blocks: further blocks of one request.
    """

    kind: ClassVar[str] = "state"

    lengths: int = 0
    draft_blocks: int = 0
    checkpoint_blocks: int = 0

    @property
    def natural_page(self) -> int:
        """Bytes of the whole state."""
        return self.row_bytes

    def steps(self, load: Load) -> Steps:
        if load.states == "all":
            return Steps(0, (pieces(self.block_size),))
        if load.states == "align":
            return Steps(2 + self.draft_blocks + self.checkpoint_blocks)
        return Steps(1 + self.draft_blocks)

    def tokens_per_block(self, length: int) -> int:
        return self.block_size or self.lengths * length

    def grown(self, times: int) -> CacheSpec:
        return replace(self, block_size=self.block_size * times, lengths=self.lengths * times)

    def _same_slots(self, other: CacheSpec) -> bool:
        return (
            isinstance(other, StateSpec)
            and other.page == self.page
            and other.draft_blocks == self.draft_blocks
            and other.checkpoint_blocks == self.checkpoint_blocks
        )
