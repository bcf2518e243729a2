"""What is neither weights nor activations: libraries, communication, CUDA graphs, the context.

    non-torch      NCCL, all-reduce buffers, cuBLAS: by release, ranks and link
    graphs         captured after the cache is sized up to 0.19 and by the second model runner;
                   0.20 to 0.25 subtract an estimate of them first
    context        made before vLLM takes its first measure: not charged to the budget at all

Ranges of public start-up logs (constants of 137 rows), in GiB.
"""

from __future__ import annotations

from kvplan.budget.vllm.conditions import Conditions
from kvplan.estimate import Estimate
from kvplan.spec.model import Sizes
from kvplan.units import GIB

Range = tuple[float, float, float]

_CAPTURED = 256  # sequences from which the default list of sizes is whole


def non_torch(given: Conditions) -> Estimate:
    """What torch's allocator does not see."""
    found, origin = _non_torch(given)
    low, mid, high = (round(gib * GIB) for gib in found)
    return Estimate(low, mid, high, origin)


def _non_torch(given: Conditions) -> tuple[Range, str]:
    version, tp = given.version, given.tp
    ranks = f"{tp} tensor ranks" if tp > 1 else "one tensor rank"
    if given.uncertain:
        return (-1.0, 0.7, 5.7), f"{ranks}; on this device other programs' memory counts too"
    if tp == 1 and given.pp > 1:
        return (0.02, 0.07, 0.3), "pipeline stages"
    if tp == 1:
        if version >= (0, 26):
            return (0.0, 0.25, 0.6), ranks
        if version >= (0, 18):
            return (0.15, 0.25, 0.48), ranks
        return (-0.45, 0.1, 0.35), ranks
    if given.nvlink:
        if version >= (0, 18):
            return (1.9, 2.1, 2.35), f"{ranks} over NVLink"
        return (0.0, 0.9, 2.4), f"{ranks} over NVLink"
    if version >= (0, 26):
        return (0.8, 1.6, 2.8), f"{ranks} over PCIe"
    return (-0.1, 0.17, 0.6), f"{ranks} over PCIe"


def graphs(given: Conditions) -> Estimate:
    """CUDA graphs with the default list of sizes."""
    if given.eager:
        return Estimate(0, 0, 0, "enforce_eager: none")
    layers = -(-len(given.spec.layers) // given.pp)
    sizes = given.spec.sizes or Sizes()
    moe = bool(sizes.num_experts)
    per_layer = (0.012, 0.045, 0.08) if moe else (0.009, 0.02, 0.033)
    low, mid, high = (gib * layers * GIB for gib in per_layer)
    share = min(given.sequences / _CAPTURED, 1.0)
    low, mid = low * share * 0.5, mid * (0.3 + 0.7 * share)
    kind = "expert" if moe else "dense"
    return Estimate(
        round(low), round(mid), round(high + 0.3 * GIB), f"{layers} {kind} layers, default sizes"
    )


def subtracted_graphs(given: Conditions) -> Estimate:
    """What of the graphs the release takes off before it sizes the cache."""
    nothing = Estimate(0, 0, 0, "captured after the cache is sized, on top of the budget")
    if given.eager or given.version < (0, 20):
        return nothing
    found = graphs(given)
    if given.version < (0, 26):
        return found._replace(low=0, origin=f"an estimate is taken off; {found.origin}")
    return found._replace(
        low=0, mid=0, origin="taken off by the first model runner only; the second captures on top"
    )


def context(given: Conditions) -> Estimate:
    """The CUDA context and NCCL, made before the first measure and charged to nobody."""
    low, mid, high = (0.4, 0.5, 0.8) if given.tp == 1 else (0.5, 1.2, 2.1)
    return Estimate(round(low * GIB), round(mid * GIB), round(high * GIB), "CUDA context")
