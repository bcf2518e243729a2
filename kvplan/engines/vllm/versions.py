"""The vLLM versions whose cache rules are known, and what differs between them, as data.

0.33.0 was followed through its own planning code; 0.32.0 has the same byte rules; 0.19.0 and
0.11.2 were read only. Any other version is answered with the rules of the nearest known one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one version does.

    Attributes:
        version: the release these rules were taken from.
        gpu_memory_utilization: default share of the GPU.
        in_flight_batches: windows are charged for every batch that may be in flight, not for one.
        reserves_null_block: the fit check plans without the pool's null block.
        capacity_from_concurrency: the log's token figure is int(concurrency x length); before,
            it was blocks // groups x the smallest block size.
        widen_close_buckets: groups take the largest bucket's width when it is below 1.5 x the
            smallest's; before, always the smallest bucket's.
        unifies_pages: layers with unequal pages are brought to one size.
        pads_pages: a page that does not divide the largest one is padded; before, an error.
        checkpoint_blocks: state kernels that checkpoint inside a prefill take one block more.
        state_blocks_follow_length: with prefix caching a state group is charged one block per
            mamba block of the request, not a fixed number.
        async_scheduling: default of --async-scheduling.
        prefix_caching_of_hybrids: hybrid models cache prefixes by default.
    """

    version: str
    gpu_memory_utilization: float = 0.92
    in_flight_batches: bool = True
    reserves_null_block: bool = True
    capacity_from_concurrency: bool = True
    widen_close_buckets: bool = True
    unifies_pages: bool = True
    pads_pages: bool = True
    checkpoint_blocks: bool = True
    state_blocks_follow_length: bool = False
    async_scheduling: bool = True
    prefix_caching_of_hybrids: bool = True


_OLD = {
    "gpu_memory_utilization": 0.9,
    "in_flight_batches": False,
    "reserves_null_block": False,
    "capacity_from_concurrency": False,
    "pads_pages": False,
    "checkpoint_blocks": False,
}

# Newest first.
_KNOWN: tuple[Rules, ...] = (
    Rules(version="0.33.0"),
    Rules(version="0.32.0"),
    Rules(version="0.19.0", **_OLD),  # type: ignore[arg-type]
    Rules(
        version="0.11.2",
        widen_close_buckets=False,
        unifies_pages=False,
        state_blocks_follow_length=True,
        async_scheduling=False,
        prefix_caching_of_hybrids=False,
        **_OLD,  # type: ignore[arg-type]
    ),
)

VERSIONS: tuple[str, ...] = tuple(rules.version for rules in _KNOWN)


def _number(version: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+-]?\w[\w.+-]*)?", version.strip())
    if match is None:
        raise UsageError(f"vllm version {version!r} is not a version", hint="write it like 0.33.0")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def rules_of(version: str) -> tuple[Rules, str | None]:
    """The rules nearest to `version`, and a sentence when they are another version's.

    Raises:
        UsageError: not a version.
    """
    wanted = _number(version)
    for rules in _KNOWN:
        if _number(rules.version) == wanted:
            return rules, None
    # Releases are minor versions, so the distance is counted in those.
    nearest = min(_KNOWN, key=lambda rules: abs(_distance(wanted, _number(rules.version))))
    return nearest, (
        f"vllm {version} was not looked at; these are the rules of the nearest known "
        f"version, {nearest.version}"
    )


def _distance(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    return (first[0] - second[0]) * 1000 + (first[1] - second[1]) + (first[2] - second[2]) / 1000
