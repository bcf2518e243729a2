"""The numbers of blocks that are still possible, narrowed by each printed figure that fits.

An available memory of 3.81 GiB stands for all bytes between 3.805 and 3.815 GiB, so it gives a
range of blocks; blocks, tokens and concurrency must come out of one and the same number in that
range. Where no memory is printed, the blocks are what another figure says, and the figures must
agree among each other: that tells a wrong block size, group count or length, not a wrong page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.checks import Check, undecided
from kvplan.running import seen as s
from kvplan.running.printed import Printed
from kvplan.running.seen import Seen
from kvplan.running.vllm.pool import PoolOf
from kvplan.running.vllm.words import bytes_per_block, count_check, gib, half, per_request, plain
from kvplan.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What decides the number of blocks.

    Attributes:
        available: bytes of one rank, printed or exact; None when nothing says.
        override: --num-gpu-blocks-override.
        swap_gib, swap_stated: host memory for swapped blocks (V0), and whether it is the default.
    """

    available: Printed | None
    override: int | None
    swap_gib: float
    swap_stated: bool


def given_of(
    seen: Seen,
    override: int | None,
    cache_bytes: int | None,
    swap_gib: float,
    *,
    swap_stated: bool = False,
) -> Given:
    """What a start and its options give."""
    printed = seen.figures.get(s.AVAILABLE)
    available = printed.scaled(GIB) if printed else None
    if cache_bytes is not None:
        available = Printed(float(cache_bytes), 0.0, 0)
    return Given(available=available, override=override, swap_gib=swap_gib, swap_stated=swap_stated)


class Blocks:
    """The numbers of blocks still possible, narrowed by each figure that fits."""

    def __init__(self, pool: PoolOf, seen: Seen, given: Given) -> None:
        self.pool = pool
        self.range: range | None = None
        self.basis = "the figures among each other, no memory was printed"
        available = given.available
        if given.override is not None:
            self.range = range(given.override, given.override + 1)
            self.basis = "num_gpu_blocks_override"
        elif available is not None and available.high > 0:
            low, high = pool.blocks_in(available.low), pool.blocks_in(available.high)
            self.range = range(low, high + 1)
            self.basis = f"{gib(available)} available, {bytes_per_block(pool)} per block"
        self.guess = self._middle(available)

    def _middle(self, available: Printed | None) -> int | None:
        if self.range is None:
            return None
        if len(self.range) == 1 or available is None:
            return self.range[0]
        return self.pool.blocks_in(available.value)

    def _narrow(self, found: range) -> bool:
        """Keep what both allow; False when nothing is left, and then nothing changes."""
        if self.range is None:
            if found:
                self.range, self.guess = found, found[0]
            return bool(found)
        both = range(max(self.range.start, found.start), min(self.range.stop, found.stop))
        if both:
            self.range = both
            if self.guess not in both:
                self.guess = both[0]
        return bool(both)

    def take_blocks(self, printed: Printed) -> Check:
        measured = int(printed.value)
        predicted, spread = self.guess, self.range
        ok = self._narrow(range(measured, measured + 1))
        if predicted is None or spread is None:
            why = "nothing says how much memory the blocks are out of"
            return replace(undecided("num_blocks", why, measured=measured), unit="blocks")
        return count_check(
            "num_blocks", predicted, measured, half(spread), ok, self.basis, "blocks"
        )

    def take_pool_tokens(self, printed: Printed) -> Check:
        measured, size = int(printed.value), self.pool.block_size
        known = self.guess
        ok = measured % size == 0 and self._narrow(range(measured // size, measured // size + 1))
        predicted = (known if known is not None else measured // size) * size
        why = f"blocks x {size} tokens ({self.basis})"
        return count_check("pool_tokens", predicted, measured, 0, ok, why, "tokens")

    def take_capacity(self, printed: Printed) -> Check:
        measured = round(printed.value)
        spread, guess, basis = self.range, self.guess, self.basis
        slack = int(printed.step / 2)
        candidates = self.pool.blocks_of(measured - slack, measured + slack)
        ok = self._narrow(candidates)
        if guess is None or spread is None:
            predicted = self.pool.tokens(max(0, candidates.start - (not candidates)))
            why = (
                f"{plain(candidates)} blocks give it; {basis}"
                if ok
                else "no number of blocks gives it; the next smaller one gives what is predicted"
            )
            return count_check("capacity_tokens", predicted, measured, 0, ok, why, "tokens")
        predicted = self.pool.tokens(guess)
        low, high = self.pool.tokens(spread[0]), self.pool.tokens(spread[-1])
        tolerance = max(high - predicted, predicted - low) + slack
        if not ok and low <= measured <= high:
            basis += "; within the rounding, but no whole number of blocks gives it"
        elif ok and len(candidates) > 0:
            basis += f"; {plain(candidates)} blocks give it"
        return count_check("capacity_tokens", predicted, measured, tolerance, ok, basis, "tokens")

    def take_concurrency(self, printed: Printed) -> Check:
        load = f"for {self.pool.length:,} tokens per request"
        if self.range is None or self.guess is None:
            predicted = None
            why = f"{load}: nothing else says how many blocks there are"
            return Check(
                name="max_concurrency", predicted=predicted, measured=printed.value,
                difference=None, tolerance=None, ok=None, why=why, unit="x",
            )  # fmt: skip
        low = self.pool.concurrency(self.range[0])
        high = self.pool.concurrency(self.range[-1])
        # Printing rounds, and a double has no exact half: a hair's breadth beside it.
        slack = printed.step / 2 * (1 + 1e-9) + 1e-12
        ok = low - slack <= printed.value <= high + slack
        predicted = self.pool.concurrency(self.guess)
        if ok and len(self.range) > 1:
            predicted = min(max(printed.value, low), high)
        tolerance = max(high - predicted, predicted - low) + slack
        return Check(
            name="max_concurrency",
            predicted=round(predicted, 4),
            measured=printed.value,
            difference=round(printed.value - predicted, 4),
            tolerance=round(tolerance, 4),
            ok=ok,
            why=f"{load}: {plain(self.range)} blocks, {per_request(self.pool)}",
            unit="x",
        )
