"""Why vLLM's figure is not the logical one, in plain words."""

from __future__ import annotations

from kvplan.engines.vllm.planning import Prepared


def reasons_of(made: Prepared, length: int) -> tuple[str, ...]:
    """Sentences that are true for this plan."""
    return ()
