"""Recurrent layers: a convolution over the last tokens, and linear attention with a fixed state.

Each family maps its channels to queries, keys, values and decays; the state it must keep then has
the shape that its spec says. How a trained model computes decays and strengths (biases, gates,
softplus) is left out: it changes their values, not what is kept.

    family            heads x keys x values                      decay      convolution over
    mamba1            intermediate_size x state_size x 1         element    x
    mamba2            num_heads x state_size x head_dim          head       x, B (keys), C (queries)
    gated delta net   v_heads x k_head_dim x v_head_dim, delta   head       q, k, v
    kda               num_heads x head_dim x head_dim, delta     element    q, k, v
    lightning         num_heads x head_dim x head_dim            head       nothing
    rg_lru            width x 1 x 1                              element    x
    short convolution no matrix                                             its channels
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, silu

from kvplan.spec.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    RecurrentState,
    ShortConvolution,
)
from kvplan.spec.states import State
from kvplan.verify.decode.facts import channels_of, columns_of
from kvplan.verify.decode.linear import Inputs, at_once, carried
from kvplan.verify.decode.memory import Key, Memory
from kvplan.verify.decode.vectors import by_heads
from kvplan.verify.decode.weights import Weights


class Convolution(nn.Module):
    """A causal convolution per channel that remembers its last kernel - 1 columns."""

    def __init__(self, kernel: int, channels: int, weights: Weights) -> None:
        super().__init__()
        self.past = kernel - 1
        self.taps = weights.normal(kernel, channels, spread=kernel**-0.5)

    def forward(self, new: Tensor, key: Key, memory: Memory) -> tuple[Tensor, tuple[Tensor, ...]]:
        """new (batch, tokens, channels) -> the same shape, and the columns to keep."""
        new = new.to(memory.dtype(key, 0)).float()
        carried = memory.carried(key)
        past = (
            new.new_zeros(new.shape[0], self.past, new.shape[2]) if carried is None else carried[0]
        )
        line, tokens = torch.cat((past, new), dim=1), new.shape[1]
        out = torch.zeros_like(new)
        # Sums of shifted columns rather than a library convolution, which may lower its precision.
        for at, tap in enumerate(self.taps):
            out = out + line[:, at : at + tokens] * tap
        return out, (line[:, tokens:],)


class ShortConv(nn.Module):
    """A gated short convolution: gate x convolution(gate x input)."""

    def __init__(self, state: ShortConvolution, key: Key, weights: Weights, longest: int) -> None:
        super().__init__()
        self.key = key
        self.inflow = weights.matrix(3 * state.channels)
        assert state.conv_kernel is not None
        self.convolution = Convolution(state.conv_kernel, state.channels, weights)
        self.o = weights.back(state.channels)

    def forward(self, x: Tensor, start: int, memory: Memory) -> Tensor:
        """x (batch, tokens, width) -> the same shape."""
        gate_in, gate_out, u = (x @ self.inflow).chunk(3, dim=-1)
        columns, kept = self.convolution(gate_in * u, self.key, memory)
        memory.carry(self.key, kept)
        out: Tensor = gate_out * columns
        return out @ self.o


class Recurrent(nn.Module):
    """Linear attention behind an optional convolution; subclasses say what is query, key and value.

    `longest` is the number of tokens of the proof: decays are slow enough that the first of them
    still counts at the last, for a state that was lost early must show.
    """

    heads: int
    keys: int
    values: int
    channels: int
    element_decay = False
    delta = False

    def __init__(self, state: RecurrentState, key: Key, weights: Weights, longest: int) -> None:
        super().__init__()
        self.key, self.rate = key, 4.0 / longest
        self.inflow = weights.matrix(self.channels)
        kernel = state.conv_kernel if columns_of(state) is not None else None
        self.convolution = Convolution(kernel, self.channels, weights) if kernel else None
        self.decay = weights.matrix(self.heads)
        keys = self.keys if self.element_decay else 1
        self.decay_of_key = weights.uniform(self.heads, keys, low=0.25, high=1.0)
        self.strength = weights.matrix(self.heads) if self.delta else None
        self.o = weights.back(self.heads * self.values)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k (batch, tokens, heads, keys) and v (batch, tokens, heads, values)."""
        raise NotImplementedError

    def forward(self, x: Tensor, start: int, memory: Memory) -> Tensor:
        """x (batch, tokens, width) -> the same shape."""
        columns, kept = x @ self.inflow, ()
        if self.convolution is not None:
            columns, kept = self.convolution(columns, self.key, memory)
        q, k, v = self.split(silu(columns), x)
        pace = torch.sigmoid(x @ self.decay).unsqueeze(-1) * self.decay_of_key
        decay = torch.exp(-self.rate * pace)  # (batch, tokens, heads, 1 or keys)
        strength = None if self.strength is None else torch.sigmoid(x @ self.strength).unsqueeze(-1)
        inputs = Inputs(q, k, v, decay, strength)
        matrix, dtype = len(kept), memory.dtype(self.key, len(kept))
        past = memory.carried(self.key)
        if past is None and dtype is torch.float32:
            out = at_once(inputs)
        else:
            # A state that is rounded at every token has no other form than the walk along it.
            shape = (x.shape[0], self.heads, self.keys, self.values)
            before = x.new_zeros(shape) if past is None else past[matrix].reshape(shape)
            out, after = carried(inputs, before, dtype)
            memory.carry(self.key, (*kept, after))
        return out.flatten(-2) @ self.o


class Mamba1Layer(Recurrent):
    """A state vector per channel; B and C are shared by all channels."""

    element_decay = True

    def __init__(self, state: Mamba1, key: Key, weights: Weights, longest: int) -> None:
        self.heads = self.channels = state.intermediate_size
        self.keys, self.values = state.state_size, 1
        super().__init__(state, key, weights, longest)
        self.b, self.c = weights.matrix(self.keys), weights.matrix(self.keys)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, q = ((x @ one).unsqueeze(2).expand(-1, -1, self.heads, -1) for one in (self.b, self.c))
        return q, k, columns.unsqueeze(-1)


class Mamba2Layer(Recurrent):
    """A matrix per head; heads of a group share B and C."""

    def __init__(self, state: Mamba2, key: Key, weights: Weights, longest: int) -> None:
        self.heads, self.keys, self.values = state.num_heads, state.state_size, state.head_dim
        self.channels, self.groups = channels_of(state), state.n_groups
        super().__init__(state, key, weights, longest)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shared = self.groups * self.keys
        v, k, q = torch.split(columns, [self.heads * self.values, shared, shared], dim=-1)
        q, k = (
            by_heads(row, self.groups).repeat_interleave(self.heads // self.groups, dim=2)
            for row in (q, k)
        )
        return q, k, by_heads(v, self.heads)


class DeltaLayer(Recurrent):
    """The gated delta rule: keys of unit length, each write replaces what its key held before."""

    delta = True

    def __init__(
        self, state: GatedDeltaNet | KimiDeltaAttention, key: Key, weights: Weights, longest: int
    ) -> None:
        if isinstance(state, KimiDeltaAttention):
            self.element_decay = True
            self.heads = self.key_heads = state.num_heads
            self.keys = self.values = state.head_dim
        else:
            self.heads, self.key_heads = state.v_heads, state.k_heads
            self.keys, self.values = state.k_head_dim, state.v_head_dim
        self.channels = channels_of(state)
        super().__init__(state, key, weights, longest)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = self.key_heads * self.keys
        q, k, v = torch.split(columns, [size, size, self.heads * self.values], dim=-1)
        q, k = (
            normalize(by_heads(row, self.key_heads), dim=-1).repeat_interleave(
                self.heads // self.key_heads, dim=2
            )
            for row in (q, k)
        )
        return q, k, by_heads(v, self.heads)


class LightningLayer(Recurrent):
    """Linear attention without a convolution."""

    def __init__(self, state: LightningAttention, key: Key, weights: Weights, longest: int) -> None:
        self.heads, self.keys, self.values = state.num_heads, state.head_dim, state.head_dim
        self.channels = 3 * self.heads * self.keys
        super().__init__(state, key, weights, longest)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (by_heads(row, self.heads) for row in columns.chunk(3, dim=-1))
        return q, k, v


class UnitLayer(Recurrent):
    """RG-LRU: one number per channel."""

    def __init__(
        self, state: LinearRecurrentUnit, key: Key, weights: Weights, longest: int
    ) -> None:
        self.heads = self.channels = state.width
        self.keys = self.values = 1
        super().__init__(state, key, weights, longest)

    def split(self, columns: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        one = columns.new_ones(*columns.shape, 1)
        return one, one, columns.unsqueeze(-1)


LAYERS: dict[type[State], Any] = {
    Mamba1: Mamba1Layer,
    Mamba2: Mamba2Layer,
    GatedDeltaNet: DeltaLayer,
    KimiDeltaAttention: DeltaLayer,
    LightningAttention: LightningLayer,
    LinearRecurrentUnit: UnitLayer,
    ShortConvolution: ShortConv,
}
