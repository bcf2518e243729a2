"""The least time of a decode step: what it must read, over the memory's bandwidth.

    bytes = weights of a rank (of experts only those that a token must go through)
            + cache of every sequence, spread over the ranks
    least milliseconds per token = bytes / bandwidth

A bound: arithmetic, communication and the launch of kernels come on top, and a batch touches more
experts than one token does. Pipeline stages work one after the other, so their bytes add up.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.budget.parameters import groups_of
from kvplan.budget.vllm.budget import WEIGHTS, Budget
from kvplan.budget.vllm.conditions import Conditions
from kvplan.budget.weights import Split, weights_of_rank
from kvplan.engines.logical import LogicalCache
from kvplan.hardware.device import Device
from kvplan.hardware.sets import Devices
from kvplan.load import LoadedModel
from kvplan.plan.fit import Fit
from kvplan.spec.model import ModelSpec


class Decode(NamedTuple):
    """The bound of one step.

    Attributes:
        weights_bytes, kv_bytes: what a rank reads at least.
        milliseconds: least time of a token.
        tokens_per_second: most tokens of all sequences.
        outweighs_at: context from which the cache is more than the weights; None if never.
        bandwidth_gbs: the device's.
    """

    weights_bytes: int
    kv_bytes: int
    milliseconds: float
    tokens_per_second: float
    outweighs_at: int | None
    bandwidth_gbs: float

    @property
    def kv_share(self) -> float:
        """The cache's share of what is read."""
        return self.kv_bytes / (self.weights_bytes + self.kv_bytes)


def decode_bound(
    spec: ModelSpec, found: Fit, budget: Budget, device: Device, given: Conditions
) -> Decode | None:
    """The bound of a request on a device; None without its bandwidth or the weights."""
    return _bound(
        spec, budget.line(WEIGHTS).mid * given.pp, found.logical, device.bandwidth_gbs, given.tp
    )


def decode_of(
    model: LoadedModel, logical: LogicalCache, devices: Devices, named: str | None = None
) -> Decode | None:
    """The bound without an engine: weights and cache divided evenly among the devices."""
    ranks = devices.number
    weights = weights_of_rank(model.spec, Split(ranks), named=named)
    if weights is None:
        return None
    return _bound(model.spec, weights.mid, logical, devices.smallest.bandwidth_gbs, ranks)


def _bound(
    spec: ModelSpec, weights: int, logical: LogicalCache, bandwidth_gbs: float | None, ranks: int
) -> Decode | None:
    if bandwidth_gbs is None or not weights:
        return None
    groups, sizes = groups_of(spec), spec.sizes
    if groups is not None and groups.total and sizes is not None and sizes.num_experts:
        chosen = min((sizes.num_experts_per_tok or 1) / sizes.num_experts, 1.0)
        weights -= round(weights * groups.experts / groups.total * (1 - chosen))
    kv = logical.bytes // ranks
    seconds = (weights + kv) / (bandwidth_gbs * 1e9)
    per_token = logical.bytes_per_token * logical.batch // ranks
    return Decode(
        weights,
        kv,
        seconds * 1000,
        logical.batch / seconds,
        weights // per_token if per_token else None,
        bandwidth_gbs,
    )
