"""Whether the engine would start, what its refusal says, and whether it did."""

from __future__ import annotations

from kvplan.checks import Check
from kvplan.running import seen as s
from kvplan.running.seen import OUTCOMES, REMEDIES, Seen
from kvplan.running.vllm.pool import PoolOf
from kvplan.running.vllm.possible import Blocks, Given
from kvplan.running.vllm.words import bytes_check, count_check, gib, plain
from kvplan.units import GIB


def refusal_checks(pool: PoolOf, seen: Seen, given: Given) -> list[Check]:
    found = []
    needed = seen.figures.get(s.NEEDED)
    if needed is not None:
        found.append(
            bytes_check(
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
            count_check(
                "refused_available_bytes", predicted, int(stated.value), tolerance, ok, why, "B"
            )
        )
    basis = printed.scaled(GIB) if printed is not None else None
    if longest is not None and basis is not None:
        low, high = pool.longest(max(0, int(basis.low))), pool.longest(max(0, int(basis.high)))
        predicted = pool.longest(max(0, int(basis.value)))
        measured = int(longest.value)
        found.append(
            count_check(
                "max_model_len_that_fits", predicted, measured,
                max(high - predicted, predicted - low), low <= measured <= high,
                f"the longest request that {gib(basis)} holds", "tokens",
            )
        )  # fmt: skip
    return found


def outcome_check(pool: PoolOf, seen: Seen, given: Given, blocks: Blocks) -> Check | None:
    """Whether the engine would start, and whether it did."""
    predicted, why = _verdict(pool, seen, given, blocks)
    if predicted is None and why is None and seen.failure is None:
        return None
    if seen.failure is not None and seen.outcome in (None, s.STARTED, s.FAILED):
        return _ended(seen.failure, predicted)
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


def _ended(code: str, predicted: str | None) -> Check:
    """The check that has failed because the engine ended although its pool fits."""
    return Check(
        name="starts",
        predicted=OUTCOMES[predicted] if predicted else None,
        measured=f"ends: {code}",
        difference=None,
        tolerance=None,
        ok=False,
        why=f"the log shows the pool and then that the engine ended; {REMEDIES[code]}",
        unit="",
    )


def _verdict(
    pool: PoolOf, seen: Seen, given: Given, blocks: Blocks
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
        why = f"{pool.length:,} tokens against {plain(blocks.range)} blocks of {size}"
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
