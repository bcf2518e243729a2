"""Sparse attention's indexer: keys of its own, one per token, that say which tokens count.

A trained indexer hands the highest scores to attention and drops the rest. How many it keeps is no
part of a spec and changes nothing that is stored, and a choice that hangs on the last bit would
tell nothing about the cache. So here the score of each token is added to its attention score
instead: every stored key is read, and a wrong one shows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvplan.spec.states import Indexer
from kvplan.verify.decode.memory import Key, Memory
from kvplan.verify.decode.vectors import by_heads, rotate
from kvplan.verify.decode.weights import Weights

_HEADS = 4  # query heads per indexer key; nothing of them is kept
_STRENGTH = 4.0  # of the score beside attention's own, whose spread is 2


class IndexScores(nn.Module):
    """What an indexer adds to the attention scores of its layer."""

    def __init__(self, state: Indexer, key: Key, weights: Weights) -> None:
        super().__init__()
        self.state, self.key = state, key
        self.q = weights.matrix(_HEADS * state.kv_heads * state.head_dim)
        self.k = weights.matrix(state.kv_heads * state.head_dim)

    def forward(self, x: Tensor, start: int, memory: Memory) -> Tensor:
        """x (batch, tokens, width) -> (batch, 1, tokens, positions from 0 on)."""
        state = self.state
        q = rotate(by_heads(x @ self.q, _HEADS * state.kv_heads), start)
        k = rotate(by_heads(x @ self.k, state.kv_heads), start)
        (keys,) = memory.extend(self.key, state, (k,), start).rows
        q = q.reshape(*q.shape[:2], state.kv_heads, _HEADS, state.head_dim)
        scores = torch.einsum("btghd,bpgd->bghtp", q, keys) * state.head_dim**-0.5
        added: Tensor = _STRENGTH * scores.relu().mean((1, 2)).unsqueeze(1)
        return added


class Indexed(nn.Module):
    """An attention layer whose scores an indexer helps to make."""

    def __init__(self, attention: nn.Module, scores: IndexScores) -> None:
        super().__init__()
        self.attention, self.scores = attention, scores

    def forward(self, x: Tensor, start: int, memory: Memory) -> Tensor:
        """x (batch, tokens, width) -> the same shape."""
        out: Tensor = self.attention(x, start, memory, self.scores(x, start, memory))
        return out
