"""The storages that are tried: each one a way to place tokens, in a format.

    contiguous, float32     a row of entries per sequence, rings for windows: the plain case
    paged, float32          the same entries in blocks of a shuffled table
    contiguous, FORMAT      the format that is asked for, the figure that `size` prints
    paged, FORMAT           as serving engines keep it

The float32 ones separate right from wrong by five orders of magnitude; the others show that the
same placement holds the format's bytes, scales included.
"""

from __future__ import annotations

import torch

from kvplan.dtypes import DTYPES, CacheDTypes
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import CrossAttention, State
from kvplan.verify.decode.cut import BATCH, in_float32
from kvplan.verify.decode.kept import pieces_of, span_of, vectors_of
from kvplan.verify.decode.memory import Cache, NoCache
from kvplan.verify.decode.placement import in_a_row, in_blocks
from kvplan.verify.decode.reference import states_of
from kvplan.verify.decode.storage import Fixed, Rows

_FLOAT32 = DTYPES["float32"]
EXACT = CacheDTypes(_FLOAT32, _FLOAT32, _FLOAT32)


class Layout(NamedTuple):
    """One storage.

    Attributes:
        spec: the cut model, its fixed states in the formats of this layout.
        dtypes: formats of what grows.
        block_size: tokens per block; None for contiguous storage.
        seed: of the shuffled table.
    """

    spec: ModelSpec
    dtypes: CacheDTypes
    block_size: int | None
    seed: int

    @property
    def exact(self) -> bool:
        """Whether nothing is rounded."""
        return self.dtypes == EXACT and self.spec == in_float32(self.spec)

    @property
    def format_name(self) -> str:
        """The formats in use, `K/V` where they differ."""
        k, v = self.dtypes.k.name, self.dtypes.v.name
        return k if k == v else f"{k}/{v}"

    @property
    def name(self) -> str:
        """`paged, bfloat16`."""
        return f"{'paged' if self.block_size else 'contiguous'}, {self.format_name}"

    @property
    def unit_errors(self) -> list[float]:
        """The largest rounding error of a value of unit size, for each kind of stored vector."""
        return [
            one.format.unit_error
            for _, state in states_of(self.spec)
            for one in vectors_of(state, self.dtypes)
        ] + [
            torch.finfo(piece.dtype).eps / 2
            for _, state in states_of(self.spec)
            for piece in pieces_of(state, self.dtypes)
        ]

    def tokens_of(self, state: State, tokens: int) -> int:
        """Rows that a state keeps of a sequence of `tokens` tokens, before any window."""
        return (self.spec.encoder_tokens or 0) if isinstance(state, CrossAttention) else tokens

    def cache(self, tokens: int, device: str) -> Cache:
        """Storage for `tokens` tokens of each sequence."""
        rows, fixed = {}, {}
        for number, (key, state) in enumerate(states_of(self.spec)):
            if isinstance(state, RecurrentState):
                fixed[key] = Fixed(pieces_of(state, self.dtypes), BATCH, device)
                continue
            many, span = self.tokens_of(state, tokens), span_of(state)
            if self.block_size is None:
                placement = in_a_row(BATCH, many, span, device)
            else:
                seed = self.seed + number
                placement = in_blocks(BATCH, many, span, self.block_size, seed, device)
            rows[key] = Rows(vectors_of(state, self.dtypes), placement)
        return Cache(rows, fixed)

    def nothing(self) -> NoCache:
        """No storage, in the same formats."""
        states = dict(states_of(self.spec))
        return NoCache(
            {key: vectors_of(state, self.dtypes) for key, state in states.items()},
            {key: pieces_of(state, self.dtypes) for key, state in states.items()},
        )


def layouts(spec: ModelSpec, dtypes: CacheDTypes, block_size: int, seed: int) -> list[Layout]:
    """The storages for a cut model: in float32, then in its own format where that differs."""
    grows = any(not state.fixed for state in spec.states())
    sizes = (None, block_size) if grows else (None,)
    found = [Layout(in_float32(spec), EXACT, size, seed) for size in sizes]
    if not Layout(spec, dtypes, None, seed).exact:
        found += [Layout(spec, dtypes, size, seed) for size in sizes]
    return found
