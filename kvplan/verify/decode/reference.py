"""The reference transformer: embedding, layers of (attention, feed-forward), logits.

Each layer runs every state that the spec says it keeps, side by side, and normalises their sum, so
that what comes out of the cache weighs as much as what is passed by, however many tokens it
averages over.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import (
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SharedCache,
    State,
)
from kvplan.verify.decode.attention import CrossAttention as CrossLayer
from kvplan.verify.decode.attention import HeadAttention
from kvplan.verify.decode.cut import BATCH, WIDTH, beside
from kvplan.verify.decode.indexer import Indexed, IndexScores
from kvplan.verify.decode.latent import MultiHeadLatent
from kvplan.verify.decode.memory import Key, Memory
from kvplan.verify.decode.recurrent import LAYERS
from kvplan.verify.decode.vectors import normed
from kvplan.verify.decode.weights import Weights

VOCABULARY = 128
_FEED_FORWARD = 2 * WIDTH


class Layer(nn.Module):
    """x + states(x), then + feed-forward."""

    def __init__(self, mixers: list[nn.Module], weights: Weights) -> None:
        super().__init__()
        self.mixers = nn.ModuleList(mixers)
        self.gate, self.up = weights.matrix(_FEED_FORWARD), weights.matrix(_FEED_FORWARD)
        self.down = weights.back(_FEED_FORWARD)

    def forward(self, x: Tensor, start: int, memory: Memory) -> Tensor:
        """x (batch, tokens, width), the first token at position `start` -> the same shape."""
        if self.mixers:
            rows = normed(x)
            mixed = torch.stack([mixer(rows, start, memory) for mixer in self.mixers]).sum(0)
            x = x + normed(mixed)
        rows = normed(x)
        return x + (silu(rows @ self.gate) * (rows @ self.up)) @ self.down


class Reference(nn.Module):
    """A transformer with the layers of a spec that was cut for the proof."""

    def __init__(self, spec: ModelSpec, *, seed: int, longest: int, device: str) -> None:
        super().__init__()
        weights = Weights(seed, device)
        self.spec, self.longest = spec, longest
        self.embedding = weights.normal(VOCABULARY, WIDTH)
        encoder = weights.normal(BATCH, spec.encoder_tokens or 1, WIDTH)
        sources = spec.shared_sources()
        self.layers = nn.ModuleList()
        for index, kind in enumerate(spec.layers):
            states = spec.kinds[kind]
            mixers = {
                at: _mixer(
                    spec, state, Key(index, at), weights, longest, encoder, sources.get(index)
                )
                for at, state in enumerate(states)
                if not isinstance(state, Indexer)
            }
            for at, state in enumerate(states):
                if isinstance(state, Indexer):
                    helped = next(n for n, one in enumerate(states) if one is beside(states, state))
                    scores = IndexScores(state, Key(index, at), weights)
                    mixers[helped] = Indexed(mixers[helped], scores)
            self.layers.append(Layer(list(mixers.values()), weights))
        self.head = weights.matrix(VOCABULARY)

    def forward(self, tokens: Tensor, start: int, memory: Memory) -> Tensor:
        """tokens (batch, n) ids, the first at position `start` -> logits (batch, n, vocabulary)."""
        x = self.embedding[tokens]
        for layer in self.layers:
            x = layer(x, start, memory)
        return normed(x) @ self.head


def states_of(spec: ModelSpec) -> Iterator[tuple[Key, State]]:
    """Every state of every layer that keeps something of its own."""
    for index, kind in enumerate(spec.layers):
        for at, state in enumerate(spec.kinds[kind]):
            if not isinstance(state, SharedCache):
                yield Key(index, at), state


def _mixer(
    spec: ModelSpec, state: State, key: Key, weights: Weights, longest: int,
    encoder: Tensor, source: int | None,
) -> nn.Module:  # fmt: skip
    if isinstance(state, RecurrentState):
        layer: nn.Module = LAYERS[type(state)](state, key, weights, longest)
        return layer
    # What lacks a fact below was left out when the spec was cut.
    if isinstance(state, SharedCache):
        assert source is not None
        read = spec.kinds[spec.layers[source]][0]
        assert isinstance(read, HeadState)
        return HeadAttention(read, _heads(spec, read), key, weights, source=Key(source, 0))
    if isinstance(state, LatentAttention):
        assert state.qk_nope_head_dim
        assert state.v_head_dim
        return MultiHeadLatent(
            state, _heads(spec, state), key, weights,
            nope=state.qk_nope_head_dim, value_dim=state.v_head_dim,
        )  # fmt: skip
    assert isinstance(state, HeadState)
    if isinstance(state, CrossAttention):
        return CrossLayer(state, _heads(spec, state), key, weights, encoder=encoder)
    return HeadAttention(state, _heads(spec, state), key, weights)


def _heads(spec: ModelSpec, state: HeadState | LatentAttention) -> int:
    heads = state.heads or spec.heads
    assert heads is not None
    return heads
