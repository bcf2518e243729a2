"""MLA: all heads share one latent and one rotary key per token, and that is all that is kept.

Without a cache each latent is decompressed into K (qk_nope_head_dim + qk_rope_head_dim) and V
(v_head_dim) of every head, as in training. With one, the decompression is absorbed: queries are
taken into the latent's space, attention runs over the stored vectors as over one KV head, and its
result is taken to V afterwards. The two compute the same in different ways, so their agreement
shows that the latent alone is enough.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from kvplan.spec.states import LatentAttention
from kvplan.verify.decode.attention import SHARPNESS, Core, scored, visible
from kvplan.verify.decode.memory import Key, Memory
from kvplan.verify.decode.vectors import by_heads, normed, rotate
from kvplan.verify.decode.weights import Weights


class MultiHeadLatent(nn.Module):
    """One latent-attention block; nope and value_dim are elements per head of K and V."""

    def __init__(
        self, state: LatentAttention, heads: int, key: Key, weights: Weights,
        *, nope: int, value_dim: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.state, self.heads, self.key = state, heads, key
        self.core = Core()
        rank, rope = state.kv_lora_rank, state.qk_rope_head_dim
        self.nope, self.rank = nope, rank
        self.score_dims = {True: 2 * rank + rope, False: nope + rope + value_dim}
        self.q = weights.matrix(heads * (nope + rope))
        self.down = weights.matrix(rank)
        self.key_rope = weights.matrix(rope)
        self.up_k = weights.normal(heads, rank, nope, spread=rank**-0.5)
        self.up_v = weights.normal(heads, rank, value_dim, spread=rank**-0.5)
        self.o = weights.back(heads * value_dim)

    def forward(self, x: Tensor, start: int, memory: Memory, extra: Tensor | None = None) -> Tensor:
        """x (batch, tokens, width), the first token at position `start` -> the same shape."""
        q = by_heads(x @ self.q, self.heads)
        q_nope, q_rope = q[..., : self.nope], rotate(q[..., self.nope :], start)
        k_rope = rotate((x @ self.key_rope).unsqueeze(2), start)
        row = torch.cat((normed(x @ self.down).unsqueeze(2), k_rope), dim=-1)
        seen = memory.extend(self.key, self.state, (row,), start)
        mask = scored(visible(self.state, start, x.shape[1], seen.first, x.device), extra)
        run = self._absorbed if memory.cached else self._decompressed
        out = run(q_nope, q_rope, seen.rows[0], mask)  # (batch, tokens, heads, value_dim)
        return out.flatten(-2) @ self.o

    @property
    def _scale(self) -> float:
        return SHARPNESS / sqrt(self.nope + self.state.qk_rope_head_dim)

    def _decompressed(self, q_nope: Tensor, q_rope: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        latent, k_rope = rows[:, :, 0, : self.rank], rows[..., self.rank :]
        k_nope = torch.einsum("btr,hrn->bhtn", latent, self.up_k)
        v = torch.einsum("btr,hrv->bhtv", latent, self.up_v)
        k_rope = k_rope.transpose(1, 2).expand(-1, self.heads, -1, -1)
        k = torch.cat((k_nope, k_rope), dim=-1)
        q = torch.cat((q_nope, q_rope), dim=-1).transpose(1, 2)
        out: Tensor = self.core(q, k, v, mask, self._scale)
        return out.transpose(1, 2)

    def _absorbed(self, q_nope: Tensor, q_rope: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        q = torch.cat((torch.einsum("bthn,hrn->bthr", q_nope, self.up_k), q_rope), dim=-1)
        k = rows.transpose(1, 2)  # (batch, 1, positions, rank + rope)
        mixed = self.core(q.transpose(1, 2), k, k[..., : self.rank], mask, self._scale)
        return torch.einsum("bhtr,hrv->bthv", mixed, self.up_v)
