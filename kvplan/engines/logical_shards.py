"""How ranks divide a logical cache: nothing twice, nothing left out.

Data parallel replicas divide the sequences, pipeline stages the layers. Tensor parallel ranks
divide the heads where that comes out even, else the tokens (a latent has no heads, and one head is
shared by all); a state without tokens is divided by heads or channels, or lies on one rank, in turn
by layer. The sum over ranks is therefore always the whole; an engine replicates where it must.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvplan.engines.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One rank's part.

    Attributes:
        rank: its number: replicas outermost, tensor parallel ranks innermost.
        layers: the layers of its stage.
        sequences: the sequences of its replica.
        tp, index: tensor parallel ranks, and this one's place among them.
    """

    rank: int
    layers: range
    sequences: int
    tp: int
    index: int

    def heads_and_tokens(self, heads: int, tokens: int, divisible: bool) -> tuple[int, int]:
        """This rank's part of `heads` heads and `tokens` tokens."""
        if divisible:
            return heads // self.tp, tokens
        return heads, _part(tokens, self.tp, self.index)

    def part_of(self, size: int, layer: int, *, divisible: bool) -> int:
        """This rank's part of a dimension of a state that has no tokens."""
        if divisible and size % self.tp == 0:
            return size // self.tp
        return size if layer % self.tp == self.index else 0


def shards(layers: int, request: Request) -> Iterator[Shard]:
    """Every rank's part of `layers` layers and the request's sequences."""
    rank = 0
    for replica in range(request.dp):
        sequences = _part(request.batch, request.dp, replica)
        for stage in range(request.pp):
            own = range(stage * layers // request.pp, (stage + 1) * layers // request.pp)
            for index in range(request.tp):
                yield Shard(rank=rank, layers=own, sequences=sequences, tp=request.tp, index=index)
                rank += 1


def _part(size: int, parts: int, index: int) -> int:
    """The size of part `index` when `size` is cut into parts that differ by at most one."""
    return (index + 1) * size // parts - index * size // parts
