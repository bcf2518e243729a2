"""Printed figures against one pool: a check per figure, with the rounding it was printed with.

An available memory of 3.81 GiB stands for all bytes between 3.805 and 3.815 GiB, so it gives a
range of blocks; blocks, tokens and concurrency must come out of one and the same number in that
range. Where no memory is printed, the blocks are what another figure says, and the figures must
agree among each other: that tells a wrong block size, group count or length, not a wrong page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.units import GIB
from kvplan.verify.checks import Check
from kvplan.verify.running import seen as s
from kvplan.verify.running.pool import PoolOf
from kvplan.verify.running.printed import Printed
from kvplan.verify.running.seen import OUTCOMES, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What decides the number of blocks.

    Attributes:
        available: bytes of one rank, printed or exact; None when nothing says.
        override: --num-gpu-blocks-override.
        swap_gib: host memory for swapped blocks (V0).
    """

    available: Printed | None
    override: int | None
    swap_gib: float


def given_of(seen: Seen, override: int | None, cache_bytes: int | None, swap_gib: float) -> Given:
    """What a start and its options give."""
    if cache_bytes is not None:
        return Given(
            available=Printed(float(cache_bytes), 0.0, 0), override=override, swap_gib=swap_gib
        )
    printed = seen.figures.get(s.AVAILABLE)
    return Given(
        available=printed.scaled(GIB) if printed else None, override=override, swap_gib=swap_gib
    )


def checks_of(pool: PoolOf, seen: Seen, given: Given) -> tuple[Check, ...]:
    """Every figure of a start that this pool predicts."""
    found: list[Check] = []
    blocks = _Blocks(pool, seen, given)
    if s.BLOCK_SIZE in seen.figures:
        found.append(_block_size(pool, seen.figures[s.BLOCK_SIZE]))
    if s.BLOCKS in seen.figures:
        check = blocks.take_blocks(seen.figures[s.BLOCKS])
        if check is not None:
            found.append(check)
    if s.CPU_BLOCKS in seen.figures:
        stated = "swap_space" in seen.facts
        found.append(_cpu_blocks(pool, seen.figures[s.CPU_BLOCKS], given.swap_gib, stated))
    if s.POOL_TOKENS in seen.figures:
        found.append(blocks.take_pool_tokens(seen.figures[s.POOL_TOKENS]))
    if s.CAPACITY in seen.figures:
        found.append(blocks.take_capacity(seen.figures[s.CAPACITY]))
    if s.CONCURRENCY in seen.figures:
        found.append(blocks.take_concurrency(seen.figures[s.CONCURRENCY]))
    found += _refusal(pool, seen, given)
    outcome = _outcome(pool, seen, given, blocks)
    if outcome is not None:
        found.append(outcome)
    return tuple(found)


class _Blocks:
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
            self.basis = f"{_gib(available)} available, {_bytes_per_block(pool)} per block"
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

    def take_blocks(self, printed: Printed) -> Check | None:
        measured = int(printed.value)
        predicted, spread = self.guess, self.range
        ok = self._narrow(range(measured, measured + 1))
        if predicted is None or spread is None:
            return None
        return _check("num_blocks", predicted, measured, _half(spread), ok, self.basis, "blocks")

    def take_pool_tokens(self, printed: Printed) -> Check:
        measured, size = int(printed.value), self.pool.block_size
        known = self.guess
        ok = measured % size == 0 and self._narrow(range(measured // size, measured // size + 1))
        predicted = (known if known is not None else measured // size) * size
        why = f"blocks x {size} tokens ({self.basis})"
        return _check("pool_tokens", predicted, measured, 0, ok, why, "tokens")

    def take_capacity(self, printed: Printed) -> Check:
        measured = round(printed.value)
        spread, guess, basis = self.range, self.guess, self.basis
        slack = int(printed.step / 2)
        candidates = self.pool.blocks_of(measured - slack, measured + slack)
        ok = self._narrow(candidates)
        if guess is None or spread is None:
            predicted = self.pool.tokens(max(0, candidates.start - (not candidates)))
            why = (
                f"{_plain(candidates)} blocks give it; {basis}"
                if ok
                else "no number of blocks gives it; the next smaller one gives what is predicted"
            )
            return _check("capacity_tokens", predicted, measured, 0, ok, why, "tokens")
        predicted = self.pool.tokens(guess)
        low, high = self.pool.tokens(spread[0]), self.pool.tokens(spread[-1])
        tolerance = max(high - predicted, predicted - low) + slack
        if not ok and low <= measured <= high:
            basis += "; within the rounding, but no whole number of blocks gives it"
        elif ok and len(candidates) > 0:
            basis += f"; {_plain(candidates)} blocks give it"
        return _check("capacity_tokens", predicted, measured, tolerance, ok, basis, "tokens")

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
            why=f"{load}: {_plain(self.range)} blocks, {_per_request(self.pool)}",
            unit="x",
        )


def _block_size(pool: PoolOf, printed: Printed) -> Check:
    why = "tokens of one block of attention, raised until it holds a layer's state"
    ok = pool.block_size == int(printed.value)
    return _check("block_size", pool.block_size, int(printed.value), 0, ok, why, "tokens")


def _cpu_blocks(pool: PoolOf, printed: Printed, swap_gib: float, stated: bool) -> Check:
    predicted = pool.blocks_in(swap_gib * GIB)
    why = f"{swap_gib:g} GiB of swap space / {_bytes_per_block(pool)}: exact"
    measured = int(printed.value)
    check = _check("num_cpu_blocks", predicted, measured, 0, predicted == measured, why, "blocks")
    if check.ok or stated:
        return check
    # The default is not printed, so a miss may be another --swap-space.
    return replace(check, ok=None, why=f"{why}, if swap_space was left at its default")


def _refusal(pool: PoolOf, seen: Seen, given: Given) -> list[Check]:
    found = []
    needed = seen.figures.get(s.NEEDED)
    if needed is not None:
        found.append(
            _bytes(
                "needed_bytes_one_request",
                pool.charged_bytes,
                needed.scaled(GIB),
                f"what the start-up check charges one request of {pool.length:,} tokens",
            )
        )
    printed = seen.figures.get(s.NEEDED_AVAILABLE)
    longest = seen.figures.get(s.LONGEST)
    if printed is not None and given.available is not None:
        low = given.available.low - pool.null_block_bytes
        high = given.available.high - pool.null_block_bytes
        stated = printed.scaled(GIB)
        predicted = int(given.available.value) - pool.null_block_bytes
        tolerance = int((given.available.step * GIB + stated.step) / 2) + 1
        ok = stated.high >= low and stated.low <= high
        why = "available memory" + (" without one null block" if pool.null_block_bytes else "")
        found.append(
            _check("refused_available_bytes", predicted, int(stated.value), tolerance, ok, why, "B")
        )
    basis = printed.scaled(GIB) if printed is not None else None
    if longest is not None and basis is not None:
        low, high = pool.longest(max(0, int(basis.low))), pool.longest(max(0, int(basis.high)))
        predicted = pool.longest(max(0, int(basis.value)))
        measured = int(longest.value)
        found.append(
            _check(
                "max_model_len_that_fits", predicted, measured,
                max(high - predicted, predicted - low), low <= measured <= high,
                f"the longest request that {_gib(basis)} holds", "tokens",
            )
        )  # fmt: skip
    return found


def _outcome(pool: PoolOf, seen: Seen, given: Given, blocks: _Blocks) -> Check | None:
    """Whether the engine would start, and whether it did."""
    predicted, why = _verdict(pool, seen, given, blocks)
    if predicted is None and why is None:
        return None
    measured = OUTCOMES[seen.outcome] if seen.outcome else None
    if measured is None:
        if predicted == s.STARTED:
            return None
        why = f"{why}; the log does not say how it ended"
    agrees: bool | None = predicted == seen.outcome
    if seen.outcome == s.FAILED:
        # The log does not name the reason, so only a refusal that was due explains it.
        agrees = True if predicted in (s.TOO_LONG, s.NO_MEMORY) else None
    return Check(
        name="starts",
        predicted=OUTCOMES[predicted] if predicted else None,
        measured=measured,
        difference=None,
        tolerance=None,
        ok=None if predicted is None or measured is None else agrees,
        why=why or "",
        unit="",
    )


def _verdict(
    pool: PoolOf, seen: Seen, given: Given, blocks: _Blocks
) -> tuple[str | None, str | None]:
    """(predicted outcome, why); (None, why) within the rounding; (None, None) without a basis."""
    stated = seen.figures.get(s.NEEDED_AVAILABLE)
    if pool.pool_tokens_check:
        if blocks.range is None:
            return None, None
        low, high = blocks.range[0], blocks.range[-1]
        if high <= 0:
            return s.NO_MEMORY, "no block fits"
        size = pool.block_size
        why = f"{pool.length:,} tokens against {_plain(blocks.range)} blocks of {size}"
        if pool.length > high * size:
            return s.TOO_LONG, why
        return (s.STARTED, why) if pool.length <= low * size else (None, why)
    if given.override is not None:
        # Before 0.22 the check looked at the memory, later at the override.
        return None, None
    if stated is not None:
        basis = stated.scaled(GIB)
        usable = [int(basis.low), int(basis.high)]
    elif given.available is not None:
        available = given.available
        usable = [int(bound) - pool.null_block_bytes for bound in (available.low, available.high)]
    elif blocks.range is not None:
        sizes = max(pool.per_block)
        usable = [blocks.range[0] * sizes, (blocks.range[-1] + 1) * sizes]
    else:
        return None, None
    if usable[1] <= 0:
        return s.NO_MEMORY, "nothing is left for the cache"
    why = (
        f"one request of {pool.length:,} tokens is charged {pool.charged_bytes / GIB:.2f} GiB, "
        f"{sum(usable) / 2 / GIB:.2f} GiB are there"
    )
    if pool.charged_bytes > usable[1]:
        return s.TOO_LONG, why
    if usable[0] > 0 and pool.charged_bytes <= usable[0]:
        return s.STARTED, why
    return None, f"{why}: within the rounding"


def _bytes(name: str, predicted: int, printed: Printed, why: str) -> Check:
    measured = int(printed.value)
    tolerance = int(printed.step / 2) + 1
    ok = printed.low - 1 <= predicted <= printed.high + 1
    return _check(name, predicted, measured, tolerance, ok, why, "B")


def _check(
    name: str, predicted: int, measured: int, tolerance: int, ok: bool, why: str, unit: str
) -> Check:
    return Check(
        name=name, predicted=predicted, measured=measured, difference=measured - predicted,
        tolerance=tolerance, ok=ok, why=why, unit=unit,
    )  # fmt: skip


def _half(spread: range) -> int:
    return len(spread) // 2


def _plain(blocks: range) -> str:
    if len(blocks) == 1:
        return f"{blocks[0]:,}"
    return f"{blocks[0]:,} to {blocks[-1]:,}"


def _gib(printed: Printed) -> str:
    return f"{printed.value / GIB:.2f} GiB"


def _bytes_per_block(pool: PoolOf) -> str:
    return " / ".join(f"{size:,} B" for size in dict.fromkeys(pool.per_block))


def _per_request(pool: PoolOf) -> str:
    blocks = pool.made.pool.request_blocks(pool.made.load)
    groups = len(pool.made.pool.groups)
    if groups == 1:
        return f"{blocks:,} blocks per request"
    return f"{blocks:,} blocks per request over {groups} groups"
