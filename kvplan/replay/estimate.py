"""Mean occupancy without a run, by Little's law: what a request holds, times how often one comes.

A request of P prompt and O output tokens holds ceil((P + t) / block) blocks in the step that
computes its token t of the output, for about O steps; windows hold no more than they need. Requests
wait for nobody here, so the tail of the real distribution is up to 70 % higher.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvplan.arithmetic import ceil_div
from kvplan.replay.facts import FULL, STATE, Facts
from kvplan.replay.request import Row
from kvplan.replay.run import Load

WARNING = "closed form: requests wait for nobody, so its tail is up to 70 % too low"


def mean_blocks(facts: Facts, rows: Iterable[Row], load: Load) -> dict[str, Any]:
    """Mean blocks and running requests of a timed stream; None where the stream has no time."""
    held = running = 0
    last = 0.0
    for row in rows:
        last = row.t_ms
        held += _block_steps(facts, row)
        running += row.output + ceil_div(row.prompt, facts.max_num_batched_tokens) - 1
    steps = last / load.step_ms if load.step_ms else 0.0
    if not steps:
        return {"mean_blocks": None, "mean_running": None, "warning": WARNING}
    return {
        "mean_blocks": held / steps,
        "mean_running": running / steps,
        "mean_share": held / steps / facts.usable_blocks,
        "warning": WARNING,
    }


def _block_steps(facts: Facts, row: Row) -> int:
    """Blocks of a request, summed over the steps of its output."""
    total = 0
    for group in facts.groups:
        size = group.block_size
        if group.kind == STATE:
            total += row.output
            continue
        end = row.prompt + row.output - 1
        total += _ceil_sum(end, size) - _ceil_sum(row.prompt - 1, size)
        if group.kind != FULL:
            skipped = [group.skipped(row.prompt - 1 + at) // size for at in (0, row.output)]
            total -= row.output * (skipped[0] + skipped[1]) // 2
    return total


def _ceil_sum(count: int, size: int) -> int:
    """The sum of ceil(t / size) for t = 1 .. count."""
    whole, rest = divmod(count, size)
    return size * whole * (whole + 1) // 2 + rest * (whole + 1)
