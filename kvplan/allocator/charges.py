"""What torch's CUDA allocator would charge and reserve for each rank of a layout."""

from __future__ import annotations

from kvplan.allocator.config import AllocatorConfig
from kvplan.allocator.options import NEWEST
from kvplan.allocator.predict import predict
from kvplan.engines.layout import CacheLayout
from kvplan.named_tuple import NamedTuple


class Charge(NamedTuple):
    """One rank: bytes of its tensors, and what `memory_allocated()` and `memory_reserved()` say."""

    rank: int
    formula: int
    allocated: int
    reserved: int


class Charges(NamedTuple):
    """Every rank, and the rules that were followed.

    Attributes:
        torch: the version whose rules these are.
        options: the value of `PYTORCH_CUDA_ALLOC_CONF`, empty for torch's defaults.
        ranks: one charge per rank.
    """

    torch: str
    options: str
    ranks: tuple[Charge, ...]


def charges(layout: CacheLayout, options: str = "") -> Charges:
    """Allocate each rank's tensors in order, in a process of its own, with the newest known rules.

    Raises:
        AllocatorConfigError: options that torch refuses, or whose figures cannot be predicted.
    """
    version = ".".join(map(str, NEWEST))
    config = AllocatorConfig.parse(options, torch_version=version)
    found = []
    for rank in layout.ranks:
        held = predict([tensor.bytes for tensor in rank.tensors], config=config)
        found.append(Charge(rank.rank, rank.bytes, held.allocated, held.reserved))
    return Charges(version, options, tuple(found))
