"""Proof that the planned storage works as a KV cache: a small transformer decodes through it.

A size formula can be wrong in two ways: it can leave out bytes that decoding needs, and it can
count bytes that nothing reads. So a transformer with the model's attention geometry generates
through storage of exactly the predicted size, and three things must hold: its logits equal those of
the same transformer without any cache; they stop doing so when any single piece is damaged;
and the storage grows by exactly the predicted bytes per token.

    cut.py          which layers of the model are run, what is cut down, what cannot be proven
    formats.py      element formats: vectors of numbers to bytes and back
    kept.py         what one layer keeps, in shapes
    placement.py    where the entry of a token lies: in a row, in a ring, in shuffled blocks
    storage.py      the tensors: slots for rows, pieces for recurrent states
    memory.py       what a run remembers: the storage (`Cache`), or nothing (`NoCache`)
    attention.py    heads over that memory: full, sliding, chunked, cross, shared
    latent.py       MLA: decompressed without a cache, absorbed with one
    indexer.py      keys of sparse attention, and the scores they add
    facts.py        widths of recurrent states from the spec, not from the planner
    linear.py       linear attention as a state carried along, and as one product without any
    recurrent.py    the recurrent families on top of it
    reference.py    the transformer; weights.py, vectors.py: what it is made of
    layouts.py      the storages that are tried
    growth.py       bytes_per_token_slope
    rounding.py     rounding_of_format, rounding_of_state
    equality.py     cached_equals_recomputed, negative_control; damage.py: what is damaged
    counting.py     attention_operations, and the time beside them
    prove.py        all of it in one list of checks

The weights are random and the width is cut down: neither changes what is kept per token. Arithmetic
is float32 throughout; the storage takes the format that is asked for. torch is imported when
`prove` runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.checks import Check
    from kvplan.engines.request import Request
    from kvplan.spec.model import ModelSpec

Progress = Callable[[str, int, int], None]  # (what runs now, steps done, steps in all)


def prove(
    spec: ModelSpec,
    request: Request,
    *,
    device: str = "cpu",
    seed: int = 0,
    block_size: int = 16,
    progress: Progress | None = None,
) -> list[Check]:
    """Run the proof for a model and the cache format of a request.

    Args:
        spec: the model; its layers and widths are cut down, its attention geometry is not.
        request: says the cache's format; its length and batch play no part.
        device: a torch device that can be computed on: `cpu`, `cuda`, `cuda:1`, `xpu`, `mps`.
        seed: of the weights, the tokens and the shuffled block table.
        block_size: tokens per block of the paged layouts.
        progress: is told what runs now.

    Returns:
        The checks, names as in docs/decode-proof.md; one with `ok` None says what is not proven.

    Raises:
        UsageError: no format is given or known, or block_size is not positive.
    """
    from kvplan.verify.decode.prove import prove as run

    return run(spec, request, device=device, seed=seed, block_size=block_size, progress=progress)


__all__ = ["Progress", "prove"]
