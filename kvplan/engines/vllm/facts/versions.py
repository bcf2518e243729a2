"""The vLLM versions whose cache rules are known, and what differs between them, as data.

0.33.0 was followed through its own planning code, older ones were read in their releases
(v1/core/kv_cache_utils.py, v1/kv_cache_interface.py, config/model.py, model_executor/layers/mamba/,
engine/arg_utils.py; before 0.8.0 worker/worker.py and executor/). Each entry of the table states
what a release does otherwise than the next newer one. Any other version is answered with the rules
of the nearest known one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from kvplan.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one version does.

    Attributes:
        version: the release these rules were taken from.
        gpu_memory_utilization: default share of the GPU.
        in_flight_batches: windows are charged for every batch that may be in flight, not for one.
        null_block: one block of the pool stands for what is not there, and serves no request.
        reserves_null_block: the fit check plans without it.
        capacity_from_concurrency: the log's token figure is int(concurrency x length); before,
            it was blocks // groups x the smallest block size.
        close_bucket_ratio: groups take the largest bucket's width when it is below this times the
            smallest's; None: always the smallest bucket's.
        unifies_pages: layers with unequal pages are brought to one size.
        pads_pages: a page that does not divide the largest one is padded; before, an error.
        checkpoint_kinds: states whose kernels checkpoint inside a prefill and take one block more.
        state_blocks_follow_length: with prefix caching a state group is charged one block per
            mamba block of the request, not a fixed number.
        async_scheduling: default of --async-scheduling.
        prefix_caching_of_hybrids: hybrid models cache prefixes by default.
        hybrid_groups: layers of several kinds get groups of their own; before, windows were stored
            like full attention, and concurrency was tokens of the pool / length.
        fit_check: what the start-up check charges a request: the blocks of all `groups`; the bytes
            of all `layers`, without what a group's narrower members waste; the blocks of the
            `first_group` alone; before V1, whether the pool holds `pool_tokens` enough, and at
            first only whether there is `one_block`.
        latent_pool: how DeepSeek V4's latents and windows share blocks; see `latent_pool`.
        hybrid_latent_alignment: fewest tokens of a block of a hybrid with latents, which the decode
            kernels want in whole groups.
    """

    version: str
    gpu_memory_utilization: float = 0.92
    in_flight_batches: bool = True
    null_block: bool = True
    reserves_null_block: bool = True
    capacity_from_concurrency: bool = True
    close_bucket_ratio: float | None = 1.5
    unifies_pages: bool = True
    pads_pages: bool = True
    checkpoint_kinds: tuple[str, ...] = ("mamba2", "gated_delta_net", "kimi_delta_attention")
    state_blocks_follow_length: bool = False
    async_scheduling: bool = True
    prefix_caching_of_hybrids: bool = True
    hybrid_groups: bool = True
    fit_check: str = "groups"
    latent_pool: str = "packed"
    hybrid_latent_alignment: int = 128


# Newest first: (version, what it does otherwise than the entry above).
_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.33.0", {}),
    ("0.32.0", {"checkpoint_kinds": ("mamba2", "kimi_delta_attention")}),
    ("0.31.0", {"checkpoint_kinds": ("kimi_delta_attention",)}),
    ("0.30.0", {}),
    ("0.29.0", {}),
    ("0.28.0", {"reserves_null_block": False, "checkpoint_kinds": (), "latent_pool": "widest"}),
    ("0.27.0", {"prefix_caching_of_hybrids": False}),
    ("0.26.0", {"latent_pool": "slots", "hybrid_latent_alignment": 1}),
    ("0.25.0", {"in_flight_batches": False}),
    ("0.24.0", {}),
    ("0.23.0", {"pads_pages": False}),
    ("0.22.0", {"latent_pool": "tuples"}),
    ("0.21.0", {}),
    ("0.20.0", {"capacity_from_concurrency": False}),
    ("0.19.0", {"gpu_memory_utilization": 0.9, "hybrid_latent_alignment": 64}),
    ("0.18.0", {"fit_check": "first_group"}),
    ("0.17.1", {"close_bucket_ratio": 1.25}),
    ("0.16.0", {}),
    ("0.15.1", {}),
    ("0.14.1", {"state_blocks_follow_length": True}),
    ("0.13.0", {"fit_check": "layers"}),
    ("0.12.0", {}),
    ("0.11.2",
     {"close_bucket_ratio": None, "unifies_pages": False, "async_scheduling": False}),
    ("0.11.0", {}),
    ("0.10.2", {}),
    ("0.10.0", {}),
    ("0.9.2", {}),
    ("0.9.1", {"hybrid_groups": False}),
    ("0.9.0", {}),
    ("0.8.5", {}),
    ("0.8.3", {}),
    ("0.8.1", {"null_block": False}),
    ("0.7.3", {"fit_check": "pool_tokens"}),
    ("0.6.6.post1", {}),
    ("0.6.3.post1", {}),
    ("0.5.4", {}),
    ("0.4.0", {}),
    ("0.2.4", {"fit_check": "one_block"}),
)  # fmt: skip

# The newest release whose default engine was V0; later ones fell back to it for what V1 lacked.
NEWEST_V0 = "0.7.3"


def _known() -> tuple[Rules, ...]:
    rules = Rules(version=_CHANGES[0][0])
    found = []
    for version, changes in _CHANGES:
        rules = replace(rules, version=version, **changes)
        found.append(rules)
    return tuple(found)


_KNOWN = _known()

VERSIONS: tuple[str, ...] = tuple(rules.version for rules in _KNOWN)


def _number(version: str) -> tuple[int, int, int]:
    # Behind the three numbers only what PEP 440 has there: a1, rc2, .post1, .dev3, +cu129.
    release = r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?"
    tail = r"(?:[._-]?(?:a|b|c|rc|alpha|beta|post|dev)[._-]?\d*)*"
    build = r"(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?"
    match = re.fullmatch(release + tail + build, version.strip(), re.ASCII | re.IGNORECASE)
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
    return nearest, (f"vllm {version} is not known to kvplan; rules of {nearest.version} were used")


def _distance(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    return (first[0] - second[0]) * 1000 + (first[1] - second[1]) + (first[2] - second[2]) / 1000
