"""Linear attention in two forms that share no intermediate result.

Per head, with key k, value v, query q, a decay d in (0, 1] and, for delta rules, a strength b:

    S_t = d_t S_(t-1) + k_t u_t^T       o_t = S_t^T q_t
    u_t = v_t                           plain (Mamba, lightning, RG-LRU)
    u_t = b_t (v_t - d_t S_(t-1)^T k_t) delta rule (gated delta net, KDA)

`carried` walks this with a matrix S of keys x values, which is all that is kept. `at_once` never
forms S: with D_t the product of the decays up to t, S_t is the sum of (D_t / D_i) k_i u_i^T, so
outputs are masked products of all queries with all keys, and the u of a delta rule solve a
triangular system.
(Gated delta rule: Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464.)

Shapes: q, k, decay (batch, tokens, heads, keys); v (batch, tokens, heads, values); strength (batch,
tokens, heads, 1). A decay per head is one column that broadcasts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvplan.named_tuple import NamedTuple

_HEADS_AT_ONCE = 1024  # bounds the memory of states with one head per channel


class Inputs(NamedTuple):
    """What a recurrent layer computes of each token; strength is None without a delta rule."""

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    strength: Tensor | None


def carried(inputs: Inputs, state: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(outputs, state after the last token), one token after the other.

    The state (batch, heads, keys, values) is rounded to `dtype` after each token, as it is stored.
    """
    outputs = []
    for t in range(inputs.q.shape[1]):
        q, k, v = inputs.q[:, t], inputs.k[:, t], inputs.v[:, t]
        state = state * inputs.decay[:, t].unsqueeze(-1)
        if inputs.strength is not None:
            v = inputs.strength[:, t] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
        state = (state + k.unsqueeze(-1) * v.unsqueeze(-2)).to(dtype).float()
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q))
    return torch.stack(outputs, dim=1), state


def at_once(inputs: Inputs) -> Tensor:
    """The outputs of all tokens, without a state."""
    heads = range(0, inputs.q.shape[2], _HEADS_AT_ONCE)
    return torch.cat(
        [_at_once(Inputs(*(_heads(one, at) for one in inputs))) for at in heads],
        dim=2,
    )


def _heads(values: Tensor | None, at: int) -> Any:
    return None if values is None else values[:, :, at : at + _HEADS_AT_ONCE]


def _at_once(inputs: Inputs) -> Tensor:
    # Dividing by D_i is safe: the decays of a proof multiply to e^-4 at least.
    total = inputs.decay.log().cumsum(1)
    q, k = inputs.q * total.exp(), inputs.k * (-total).exp()  # (batch, tokens, heads, keys)
    u = inputs.v
    if inputs.strength is not None:
        seen = torch.einsum("bthk,bihk->bhti", inputs.k * total.exp(), k).tril(-1)
        strength = inputs.strength.transpose(1, 2)  # (batch, heads, tokens, 1)
        u = torch.linalg.solve_triangular(
            strength * seen, strength * u.transpose(1, 2), upper=False, unitriangular=True
        ).transpose(1, 2)
    scores = torch.einsum("bthk,bihk->bhti", q, k).tril()
    return torch.einsum("bhti,bihv->bthv", scores, u)
