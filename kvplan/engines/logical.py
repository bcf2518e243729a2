"""The logical cache: what a model must keep, whoever runs it.

The sum over layers of (bytes of one entry) x (entries after T tokens), for each sequence. No pages,
no padding, no replication: the lower bound that every engine's figure is held against.
"""

from __future__ import annotations

from kvplan.dtypes import CacheDTypes
from kvplan.engines.request import Request, cache_dtypes, context_of, encoder_tokens_of
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import CrossAttention, State


class StateShare(NamedTuple):
    """What one kind of state costs, over all layers that keep it.

    Attributes:
        layer_kind: the spec's name of the layer kind.
        state: the state.
        layers: number of layers that keep it.
        entry_bytes: bytes of one entry in one layer.
        entries: entries one sequence holds in one layer.
        bytes_per_token: bytes one more token adds, over these layers.
    """

    layer_kind: str
    state: State
    layers: int
    entry_bytes: int
    entries: int
    bytes_per_token: int

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes of one sequence over these layers."""
        return self.layers * self.entry_bytes * self.entries


class LogicalCache(NamedTuple):
    """The logical cache of one request.

    Attributes:
        ctx, batch: tokens per sequence, and sequences.
        dtypes: the formats used.
        shares: one per layer kind and state, in layer order.
        fixed_bytes_per_sequence: the part that does not depend on ctx.
    """

    ctx: int
    batch: int
    dtypes: CacheDTypes
    shares: tuple[StateShare, ...]
    fixed_bytes_per_sequence: int

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes of one sequence of `ctx` tokens."""
        return sum(share.bytes_per_sequence for share in self.shares)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one more token adds to a sequence of `ctx` tokens."""
        return sum(share.bytes_per_token for share in self.shares)

    @property
    def bytes(self) -> int:
        """Bytes of the whole request: batch x sequence."""
        return self.batch * self.bytes_per_sequence


def logical_cache(spec: ModelSpec, request: Request) -> LogicalCache:
    """Count what `spec` must keep for `request`.

    Raises:
        UsageError: neither the request nor the spec says the context or the format.
    """
    ctx = context_of(spec, request)
    encoder = encoder_tokens_of(spec, request)
    # When nothing fixes the encoder's length it follows ctx, and so does its cost.
    encoder_next = encoder if request.encoder_tokens or spec.encoder_tokens else ctx + 1
    dtypes = cache_dtypes(spec, request)
    shares = []
    fixed = 0
    for name, states, layers in spec.counted_kinds(with_draft=request.with_draft):
        for state in states:
            entry = state.entry_bytes(dtypes)
            now = state.entries(ctx, encoder)
            grown = state.entries(ctx + 1, encoder_next)
            share = StateShare(name, state, layers, entry, now, layers * entry * (grown - now))
            shares.append(share)
            follows_ctx = isinstance(state, CrossAttention) and encoder_next != encoder
            if not state.depends_on_context and not follows_ctx:
                fixed += share.bytes_per_sequence
    return LogicalCache(ctx, request.batch, dtypes, tuple(shares), fixed)
