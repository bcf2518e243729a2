"""What a replay needs to know of a deployment: the groups of block tables, the pool, the scheduler.

Blocks and tokens, no bytes but those of one block. Source: vllm 0.33.0, v1/kv_cache_interface.py
(groups), config/scheduler.py and config/cache.py (options).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

from kvplan.arithmetic import ceil_div
from kvplan.replay.switches import Switches

FULL, SLIDING, CHUNKED, STATE = "full", "sliding", "chunked", "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share a block table.

    Attributes:
        kind: full, sliding, chunked or state.
        block_size: tokens of one block; of a state without prefix caching the longest request.
        window, chunk: tokens of a sliding window or of a chunk, else 0.
        checkpoints: a state that its kernels can export inside a prefill takes one block more.
        identity: groups that differ in nothing are looked up together.
    """

    kind: str
    block_size: int
    window: int = 0
    chunk: int = 0
    checkpoints: bool = False
    identity: object = None

    def skipped(self, tokens: int) -> int:
        """Tokens that nothing reads any more once `tokens` are computed."""
        if self.kind == SLIDING:
            return max(0, tokens - self.window + 1)
        if self.kind == CHUNKED:
            return tokens // self.chunk * self.chunk
        if self.kind == STATE:
            return max(0, tokens - 1)
        return 0

    def admission_cap(self, in_flight: int, max_model_len: int) -> int | None:
        """Most blocks that the admission check counts for one request, None without a bound."""
        if self.kind == SLIDING:
            held = min(self.window - 1 + in_flight, max_model_len)
            return ceil_div(held, self.block_size) + 1  # the window may start inside a block
        if self.kind == CHUNKED:
            return ceil_div(min(self.chunk + in_flight, max_model_len), self.block_size)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A deployment as its scheduler sees it.

    Attributes:
        groups: in the engine's order.
        num_blocks: blocks of the pool; one of them is the null block and serves nobody.
        bytes_per_block: bytes of one block on the fullest rank.
        max_model_len, max_num_seqs, max_num_batched_tokens: the engine's limits.
        prefix_caching, async_scheduling: on or off.
        long_prefill_token_threshold: most tokens of one request in a step, 0 without a bound.
        watermark: share of the pool that an admission leaves free.
        retention: what windows and states keep findable: 0 for the ends of prompts, None for all.
        reserve_full: admission needs room for all known text, not for its first chunk only.
        switches: rules that differ by version.
    """

    groups: tuple[Group, ...]
    num_blocks: int
    bytes_per_block: int = 0
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    prefix_caching: bool
    async_scheduling: bool
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    retention: int | None = 0
    reserve_full: bool = True
    switches: Switches = field(default_factory=Switches)

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold."""
        return self.num_blocks - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission leaves free while anything runs."""
        return int(self.watermark * self.num_blocks)

    @property
    def in_flight(self) -> int:
        """Most tokens that are scheduled and not settled: those of every batch under way."""
        return self.max_num_batched_tokens * (2 if self.async_scheduling else 1)

    @property
    def lag(self) -> int:
        """Steps between a token's computation and the scheduler's knowing it."""
        return int(self.async_scheduling)

    @property
    def scheduler_block(self) -> int:
        """Tokens that a prefix hit is a multiple of."""
        return lcm(*(group.block_size for group in self.groups))

    @property
    def hash_block(self) -> int:
        """Tokens that one hash of a text covers."""
        return gcd(*(group.block_size for group in self.groups))

    @property
    def aligned_states(self) -> bool:
        """Whether states are kept at the ends of blocks, so that prefixes can be found."""
        return self.prefix_caching and any(group.kind == STATE for group in self.groups)

    @property
    def caps(self) -> tuple[int | None, ...]:
        """The admission cap of each group."""
        if not self.switches.caps_windows:
            return (None,) * len(self.groups)
        return tuple(g.admission_cap(self.in_flight, self.max_model_len) for g in self.groups)

    @property
    def visits_all(self) -> bool:
        """Whether every running request must be visited in every step.

        Else at most one request is partly prefilled, and it is the last of the running list.
        """
        return (
            self.aligned_states
            or self.long_prefill_token_threshold > 0
            or self.max_num_seqs > self.max_num_batched_tokens
        )
