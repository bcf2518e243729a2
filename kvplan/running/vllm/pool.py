"""One setup's pool of blocks, as its version of vLLM plans it: figures in both directions.

blocks <- bytes            available // bytes per block, the fullest stage decides
tokens, concurrency <- blocks        the log line, by the version's own definition
blocks <- tokens           the range that prints so: the log line rounds down
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.engines.base import LoadModel
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.kit.versions import as_version
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.versions import rules_of
from kvplan.engines.vllm.options.settings import read_settings
from kvplan.engines.vllm.planning import Planned, prepare
from kvplan.engines.vllm.pool.capacity import capacity_of, longest_request
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import CompressedLatent, LatentAttention

_MOST_BLOCKS = 1 << 44


@dataclass(frozen=True, slots=True)
class PoolOf:
    """The pool of one setup."""

    made: Planned
    version: str

    @property
    def per_block(self) -> tuple[int, ...]:
        """Bytes of a block on a rank of each stage."""
        pool = self.made.pool
        return tuple(pool.bytes_per_block(stage) for stage in range(pool.stages))

    @property
    def length(self) -> int:
        """Tokens of one request, max_model_len."""
        return self.made.load.length

    @property
    def block_size(self) -> int:
        """Tokens of one block of attention."""
        return self.made.choice.size

    @property
    def null_block_bytes(self) -> int:
        """What the start-up check leaves out of the available memory."""
        return max(self.per_block) if self.made.pool.rules.reserves_null_block else 0

    @property
    def charged_bytes(self) -> int:
        """What the start-up check charges one request with, on the fullest rank."""
        pool, load = self.made.pool, self.made.load
        return max(pool.charged_bytes(load, stage) for stage in range(pool.stages))

    @property
    def pool_tokens_check(self) -> bool:
        """The check is whether the pool holds as many tokens as one request has."""
        return self.made.pool.rules.fit_check == "pool_tokens"

    def blocks_in(self, available: float) -> int:
        """Blocks that fit into the bytes of each rank."""
        return max(0, min(int(available // size) for size in self.per_block))

    def tokens(self, blocks: int) -> int:
        """The log line's tokens of a pool."""
        return capacity_of(self.made.pool, self.made.load, blocks)[0]

    def concurrency(self, blocks: int) -> float:
        """The log line's concurrency of a pool."""
        return capacity_of(self.made.pool, self.made.load, blocks)[1]

    def blocks_of(self, fewest: int, most: int) -> range:
        """The numbers of blocks whose log line shows between so many tokens; may be empty."""
        return range(self._first(fewest), self._first(most + 1))

    def _first(self, tokens: int) -> int:
        """The fewest blocks with at least so many tokens."""
        low, high = 0, _MOST_BLOCKS
        while low < high:
            middle = (low + high) // 2
            if self.tokens(middle) >= tokens:
                high = middle
            else:
                low = middle + 1
        return low

    def longest(self, usable: int) -> int:
        """The estimated maximum model length in a refusal."""
        pool = self.made.pool
        return min(
            longest_request(pool, self.made.load, stage, usable) for stage in range(pool.stages)
        )


def build_pool(
    spec: ModelSpec, version: str, options: Mapping[str, str], load_model: LoadModel
) -> PoolOf | str:
    """The pool of a setup, or why there is none.

    Raises:
        UsageError: options that contradict each other or that vLLM does not have.
    """
    rules, _ = rules_of(version)
    if not rules.hybrid_groups and any(isinstance(st, RecurrentState) for st in spec.states()):
        return f"how vllm {version} kept recurrent states beside its blocks is not modelled"
    if _before(version, (0, 20)) and any(isinstance(st, CompressedLatent) for st in spec.states()):
        return f"vllm {version} does not have {spec.name}'s compressed latents"
    # vllm 0.7.1 is the first release that keeps the latent itself.
    if _before(version, (0, 7, 1)) and any(isinstance(st, LatentAttention) for st in spec.states()):
        return f"vllm {version} stored a latent as whole heads, which is not modelled"
    asked = {**options, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    # The override names the pool; the plan of one block must not depend on it.
    asked.pop("num_gpu_blocks_override", None)
    asked.pop("kv_cache_memory_bytes", None)
    if rules.is_v0:
        # The engine started, so it has the class, which later releases' V0 may have had first.
        spec = spec.replaced(architecture=None)
    if rules.packed_latent_by_name:
        # A log is of an engine that started, so its one cache format was asked for.
        compressed = any(isinstance(st, CompressedLatent) for st in spec.states())
        if compressed and asked.get("kv_cache_dtype", "auto") == "auto":
            asked["kv_cache_dtype"] = "fp8"
    settings = read_settings(Request(options=asked), rules)
    try:
        made = prepare(spec, settings, load_model)
    except Refused as refused:
        return f"vllm {version} refuses this setup: {refused}"
    pool = PoolOf(made, version)
    if not made.pool.groups or not all(pool.per_block) or not _fills_blocks(pool):
        return f"{spec.name} keeps nothing in vllm {version}'s pool"
    return pool


def _fills_blocks(pool: PoolOf) -> bool:
    """Whether a request takes blocks at all: a block too small for a row has no bytes."""
    pages = (run.spec.page for group in pool.made.pool.groups for run in group.members)
    return all(pages) and pool.made.pool.request_blocks(pool.made.load) > 0


def _before(version: str, release: tuple[int, ...]) -> bool:
    known = as_version(rules_of(version)[0].version)
    return known is not None and known.release[: len(release)] < release
