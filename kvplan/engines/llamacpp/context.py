"""Lengths: how many cells a context gives each sequence, after llama.cpp's own rounding.

    pad(x)      x rounded up to 256 (older builds without flash attention: to 32)
    n_batch     at most the length asked for, before padding;  n_ubatch  at most n_batch
    unified     one stream of pad(n_ctx) cells that all sequences share
    split       a stream of pad(pad(n_ctx) // n_seq_max) cells for each sequence
    window      pad(min(cells of a stream, window x sequences of the stream + n_ubatch))

So 10,000 tokens in 3 streams become 10,752 cells, and 1,000 in 64 become 16,384.
Source: llama.cpp b11434, src/llama-context.cpp, src/llama-kv-cache-iswa.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arithmetic import ceil_div, round_up
from kvplan.engines.kit.refusal import Refused

PADDING = 256
MAX_SEQUENCES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One context's lengths.

    Attributes:
        n_ctx: cells over all streams, padded.
        n_ctx_seq: cells of one stream: the longest sequence.
        n_seq_max: sequences.
        n_ubatch: tokens of one graph.
        n_batch: tokens of one call.
        streams: separate cell arrays, 1 when sequences share one.
        swa_full: windows keep every cell.
        padding: what cells are rounded up to.
    """

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    n_ubatch: int
    n_batch: int
    streams: int
    swa_full: bool
    padding: int = PADDING

    def window_cells(self, window: int) -> int:
        """Cells of one stream in a layer that keeps a window of this many tokens."""
        if self.swa_full:
            return self.n_ctx_seq
        sequences = self.n_seq_max if self.streams == 1 else 1
        return round_up(min(self.n_ctx_seq, window * sequences + self.n_ubatch), self.padding)

    def compressed_cells(self, ratio: int) -> int:
        """Cells of one stream where `ratio` tokens become one row."""
        return round_up(ceil_div(self.n_ctx_seq, ratio), self.padding)


def settle_context(
    *,
    n_ctx: int,
    n_seq_max: int,
    n_batch: int,
    n_ubatch: int,
    unified: bool,
    swa_full: bool,
    always_split: bool = False,
    padding: int = PADDING,
) -> Context:
    """The context that these settings make.

    Args:
        always_split: the family gives every sequence a stream (DeepSeek V4); with `unified` each
            stream then has the cells of all sequences together.
        padding: what cells are rounded up to.

    Raises:
        Refused: more sequences than a context, or a call of so many tokens, can hold.
    """
    if n_seq_max > MAX_SEQUENCES:
        raise Refused(
            "too-many-sequences",
            "runtime_error",
            f"{n_seq_max} sequences are more than the {MAX_SEQUENCES} that a context can hold",
            n_seq_max=n_seq_max,
            most=MAX_SEQUENCES,
        )
    batch = min(n_ctx, n_batch)
    ubatch = min(batch, n_ubatch or batch)
    if n_seq_max > batch:
        raise Refused(
            "outputs-above-maximum",
            "GGML_ASSERT",
            f"{n_seq_max} sequences need as many outputs in one call, which holds {batch} tokens",
            n_seq_max=n_seq_max,
            n_batch=batch,
        )
    padded = round_up(n_ctx, padding)
    if unified:
        per_sequence, streams = padded, 1
    else:
        per_sequence, streams = round_up(padded // n_seq_max, padding), n_seq_max
    return Context(
        n_ctx=per_sequence * streams,
        n_ctx_seq=per_sequence,
        n_seq_max=n_seq_max,
        n_ubatch=ubatch,
        n_batch=batch,
        streams=n_seq_max if always_split else streams,
        swa_full=swa_full,
        padding=padding,
    )
