"""Random weights of the reference transformer, the same on every device for one seed.

Matrices keep the spread of what they multiply: unit inputs give unit queries, keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kvplan.verify.decode.cut import WIDTH


class Weights:
    """Draws tensors one after the other, on the CPU, and moves them to the device."""

    def __init__(self, seed: int, device: str) -> None:
        self._lot = torch.Generator().manual_seed(seed)
        self.device = device

    def normal(self, *shape: int, spread: float = 1.0) -> Tensor:
        """Normally distributed numbers."""
        return (torch.randn(shape, generator=self._lot) * spread).to(self.device)

    def uniform(self, *shape: int, low: float, high: float) -> Tensor:
        """Evenly distributed numbers of low .. high."""
        drawn = torch.rand(shape, generator=self._lot) * (high - low) + low
        return drawn.to(self.device)

    def tokens(self, batch: int, tokens: int, vocabulary: int) -> Tensor:
        """Token ids (batch, tokens)."""
        return torch.randint(vocabulary, (batch, tokens), generator=self._lot).to(self.device)

    def matrix(self, out: int) -> Tensor:
        """(WIDTH, out): from the residual stream."""
        return self.normal(WIDTH, out, spread=WIDTH**-0.5)

    def back(self, inputs: int) -> Tensor:
        """(inputs, WIDTH): into the residual stream."""
        return self.normal(inputs, WIDTH, spread=inputs**-0.5)
