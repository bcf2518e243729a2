"""The paged cache of continuous batching: pages, blocks and sectors of one flat tensor.

    page    page_size tokens of K and V of one layer: 2 * kv_heads * head_dim * item * page_size
    block   the pages of all layers of one attention type
    sector  lcm(all block sizes, 128): handed to one attention type, which cuts it into blocks
    tensor  (num_sectors + 2) sectors: the first two are for padding tokens and never handed out

Sliding layers are paged too, as a ring of ceil(window / page_size) blocks. `num_blocks` is a target
in whole-model blocks (pages of every layer).

Source: transformers 5.24.0, generation/continuous_batching/cache.py and cache_allocators/.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from kvplan.arithmetic import ceil_div
from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.transformers.attention import window_of
from kvplan.engines.transformers.families import Family
from kvplan.engines.transformers.held import ITEM_BYTES
from kvplan.engines.transformers.layer_types import layer_types
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import HeadState

_ALIGNMENT = 128
TRASH_SECTORS = 2


@dataclass(frozen=True, slots=True)
class Group:
    """The layers of one attention type.

    Attributes:
        layer_type: full_attention or sliding_attention.
        layers: number of layers.
        window: tokens of the window, None for full attention.
        bytes_per_block: the pages of these layers.
    """

    layer_type: str
    layers: int
    window: int | None
    bytes_per_block: int

    def blocks(self, tokens: int, page_size: int) -> int:
        """Blocks that one sequence of `tokens` tokens takes."""
        held = tokens if self.window is None else min(tokens, self.window)
        return ceil_div(held, page_size)


@dataclass(frozen=True, slots=True)
class Pool:
    """The geometry of one rank's pool, the number of sectors aside."""

    page_size: int
    kv_heads: int
    head_dim: int
    item_bytes: int
    groups: tuple[Group, ...]

    @property
    def page_bytes(self) -> int:
        """Bytes of one page of one layer."""
        return (
            2  # keys and values
            * self.kv_heads
            * self.head_dim
            * self.item_bytes
            * self.page_size
        )

    @property
    def bytes_per_sector(self) -> int:
        """The smallest size that every type's blocks and the alignment divide."""
        return lcm(*(group.bytes_per_block for group in self.groups), _ALIGNMENT)

    @property
    def bytes_per_model_block(self) -> int:
        """A page of every layer: the unit of `num_blocks`."""
        return sum(group.layers for group in self.groups) * self.page_bytes

    @property
    def tokens_per_sector(self) -> int:
        """Tokens of the type that gets most of them out of a sector."""
        return max(
            self.bytes_per_sector // group.bytes_per_block * self.page_size for group in self.groups
        )

    def sectors_of_blocks(self, num_blocks: int) -> int:
        """Sectors for a target of whole-model blocks."""
        return max(1, ceil_div(num_blocks * self.bytes_per_model_block, self.bytes_per_sector))

    def sectors_of_requests(self, batch: int, tokens: int) -> int:
        """Sectors that `batch` sequences of `tokens` tokens take."""
        return sum(
            ceil_div(
                batch * group.blocks(tokens, self.page_size) * group.bytes_per_block,
                self.bytes_per_sector,
            )
            for group in self.groups
        )

    def tensor_bytes(self, sectors: int) -> int:
        """Bytes of the cache tensor."""
        return (sectors + TRASH_SECTORS) * self.bytes_per_sector

    def num_blocks(self, sectors: int) -> int:
        """Whole-model blocks that the sectors hold."""
        return sectors * self.bytes_per_sector // self.bytes_per_model_block


def refusal(spec: ModelSpec, family: Family) -> Refusal | None:
    """The layer type that the paged cache does not take, else None."""
    for kind in layer_types(spec, family).values():
        # Layers that keep nothing have a type of their own in the config; pool_of answers for them.
        if kind not in ("full_attention", "sliding_attention", "dummy"):
            return Refusal(
                code="layer-kind-unsupported",
                exception="ValueError",
                message=f"the paged cache takes full and sliding attention, not {kind}",
                figures={"kinds": [kind]},
            )
    return None


def pool_of(spec: ModelSpec, family: Family, dtype: str, page_size: int, tp: int) -> Pool:
    """The pool's geometry.

    Raises:
        UsageError: layers that one page size cannot serve.
    """
    if page_size < 4:
        raise UsageError(f"page_size must be at least 4 but got {page_size}")
    types = layer_types(spec, family)
    shapes = set()
    counts: dict[str, int] = {}
    windows: dict[str, int | None] = {}
    for name, states, layers in spec.counted_kinds():
        if len(states) != 1 or not isinstance(states[0], HeadState):
            raise UsageError(f"layers {name!r} of {spec.name} are not modelled in the paged cache")
        state = states[0]
        if state.value_dim != state.head_dim:
            raise UsageError(
                "the paged cache has one head_dim; K and V of different size do not fit"
            )
        heads = state.kv_heads
        if family.broadcast_heads:
            # The paged cache reads num_key_value_heads, which such a config lacks or misnames.
            heads = state.heads or spec.heads or heads
        shapes.add((heads, state.head_dim))
        counts[types[name]] = counts.get(types[name], 0) + layers
        windows[types[name]] = window_of(state, family)
    if len(shapes) != 1:
        raise UsageError(
            "the paged cache has one number of KV heads and one head_dim for all layers"
        )
    kv_heads, head_dim = shapes.pop()
    item = ITEM_BYTES[dtype]
    page_bytes = 2 * (kv_heads // tp) * head_dim * item * page_size
    groups = tuple(
        Group(kind, layers, windows[kind], layers * page_bytes) for kind, layers in counts.items()
    )
    return Pool(page_size, kv_heads // tp, head_dim, item, groups)


def tp_refusal(spec: ModelSpec, tp: int) -> Refusal | None:
    """Why the paged cache cannot be split when KV heads do not divide by the ranks, else None."""
    for state in spec.states():
        if isinstance(state, HeadState) and state.kv_heads % tp:
            return Refusal(
                code="heads-not-divisible",
                exception="ValueError",
                message=f"{state.kv_heads} KV heads do not divide among {tp} ranks",
                figures={"kv_heads": state.kv_heads, "tp": tp},
            )
    return None
