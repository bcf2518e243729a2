"""Printed figures against one pool: a check per figure, with the rounding it was printed with."""

from __future__ import annotations

from dataclasses import replace

from kvplan.checks import Check
from kvplan.running import seen as s
from kvplan.running.printed import Printed
from kvplan.running.seen import Seen
from kvplan.running.vllm.outcome import outcome_check, refusal_checks
from kvplan.running.vllm.pool import PoolOf
from kvplan.running.vllm.possible import Blocks, Given
from kvplan.running.vllm.words import bytes_per_block, count_check
from kvplan.units import GIB


def checks_of(pool: PoolOf, seen: Seen, given: Given) -> tuple[Check, ...]:
    """Every figure of a start that this pool predicts."""
    found: list[Check] = []
    blocks = Blocks(pool, seen, given)
    if s.BLOCK_SIZE in seen.figures:
        found.append(_block_size(pool, seen.figures[s.BLOCK_SIZE]))
    if s.BLOCKS in seen.figures:
        found.append(blocks.take_blocks(seen.figures[s.BLOCKS]))
    if s.CPU_BLOCKS in seen.figures:
        printed = seen.figures[s.CPU_BLOCKS]
        found.append(_cpu_blocks(pool, printed, given.swap_gib, given.swap_stated))
    if s.POOL_TOKENS in seen.figures:
        found.append(blocks.take_pool_tokens(seen.figures[s.POOL_TOKENS]))
    if s.CAPACITY in seen.figures:
        found.append(blocks.take_capacity(seen.figures[s.CAPACITY]))
    if s.CONCURRENCY in seen.figures:
        found.append(blocks.take_concurrency(seen.figures[s.CONCURRENCY]))
    found += refusal_checks(pool, seen, given)
    outcome = outcome_check(pool, seen, given, blocks)
    if outcome is not None:
        found.append(outcome)
    return tuple(found)


def _block_size(pool: PoolOf, printed: Printed) -> Check:
    why = "tokens of one block of attention, raised until it holds a layer's state"
    ok = pool.block_size == int(printed.value)
    return count_check("block_size", pool.block_size, int(printed.value), 0, ok, why, "tokens")


def _cpu_blocks(pool: PoolOf, printed: Printed, swap_gib: float, stated: bool) -> Check:
    predicted = pool.blocks_in(swap_gib * GIB)
    why = f"{swap_gib:g} GiB of swap space / {bytes_per_block(pool)}: exact"
    measured = int(printed.value)
    check = count_check(
        "num_cpu_blocks", predicted, measured, 0, predicted == measured, why, "blocks"
    )
    if check.ok or stated:
        return check
    # The default is not printed, so a miss may be another --swap-space.
    return replace(check, ok=None, why=f"{why}, if swap_space was left at its default")
