"""How many tokens a layer keeps, and how many its storage holds, after a prefill and decode steps.

T tokens in all; the last forward pass brought q of them (1 in a decode step, the whole prompt in a
prefill, the last chunk in a chunked one). A sliding layer keeps the last window - 1: the next token
brings its own. What it keeps is a view of the tensor that the last update concatenated:

    window 4, tokens A B C | D E  (q = 2)      storage [A B C D E], view [C D E]
    next decode step F         (q = 1)      storage [C D E F],   view [D E F]

Source: transformers 5.24.0, cache_utils.py, DynamicSlidingWindowLayer.update (4.57.6 alike).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arithmetic import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where a generation stands.

    Attributes:
        batch: sequences.
        tokens: tokens per sequence in the cache.
        prefill: tokens of the prompt's prefill; the rest came one by one.
        chunk: tokens per pass of a chunked prefill (prefill_chunk_size), None for one pass.
        encoder_tokens: tokens of cross attention.
    """

    batch: int
    tokens: int
    prefill: int
    chunk: int | None = None
    encoder_tokens: int = 0

    @property
    def decode_steps(self) -> int:
        """Forward passes of one token after the prefill."""
        return self.tokens - self.prefill

    @property
    def last_pass(self) -> int:
        """Tokens that the last forward pass brought."""
        if self.decode_steps:
            return 1
        if self.chunk is None or not self.tokens:
            return self.tokens
        return self.tokens - (ceil_div(self.tokens, self.chunk) - 1) * self.chunk

    def decoded(self) -> Run:
        """The same tokens, the last of them from a decode step."""
        prefill = min(self.prefill, max(self.tokens - 1, 0))
        return Run(
            batch=self.batch,
            tokens=self.tokens,
            prefill=prefill,
            chunk=self.chunk,
            encoder_tokens=self.encoder_tokens,
        )

    def next_step(self) -> Run:
        """One decode step later."""
        return Run(
            batch=self.batch,
            tokens=self.tokens + 1,
            prefill=self.prefill,
            chunk=self.chunk,
            encoder_tokens=self.encoder_tokens,
        )

    def at(self, tokens: int) -> Run:
        """The same generation when it held `tokens` tokens."""
        return Run(
            batch=self.batch,
            tokens=tokens,
            prefill=min(self.prefill, tokens),
            chunk=self.chunk,
            encoder_tokens=self.encoder_tokens,
        )


def kept(window: int, tokens: int) -> int:
    """Tokens a sliding layer keeps out of `tokens`."""
    # A window of 1 slices with [-0:], which keeps everything.
    return tokens if window == 1 else min(tokens, window - 1)


def stored(window: int, run: Run) -> int:
    """Tokens in the storage behind a sliding layer's view."""
    return kept(window, run.tokens - run.last_pass) + run.last_pass
