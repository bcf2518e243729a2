"""PyTorch's native CUDA caching allocator, simulated to the byte without torch.

A tensor of n bytes raises `torch.cuda.memory_allocated()` by more than n, and `memory_reserved()`
by more than that: sizes are rounded, segments are taken whole, remainders are kept or charged.
All of it is deterministic for one stream and a known order of allocations, so `verify` can say
beforehand what both must read.

    config.py       AllocatorConfig: the options, and the environment variables they stand in
    reader.py       the text of `PYTORCH_CUDA_ALLOC_CONF`; divisions.py, values.py: its values
    options.py      which options and rules each torch version has
    rounding.py     request -> rounded size -> segment size
    blocks.py       blocks, and the pools of free ones
    device.py       the driver below: total bytes, 2 MiB granularity
    segments.py     segments from cudaMalloc: taken and given back whole
    expandable.py   segments that grow and shrink page by page
    native.py       CachingAllocator: malloc, free, empty_cache, stats
    stats.py        its figures
    predict.py      (allocated, reserved) after a list of tensors
    charges.py      the same for every rank of a layout

Figures follow torch 2.6 to 2.14 and were compared with the real allocators of those versions.
Not modelled: record_stream, graph-private pools, the backend `cudaMallocAsync`.
"""

from kvplan.allocator.config import AllocatorConfig
from kvplan.allocator.native import CachingAllocator
from kvplan.allocator.options import AllocatorConfigError
from kvplan.allocator.predict import Prediction, predict
from kvplan.allocator.stats import AllocatorStats, Gauge, OutOfDeviceMemory

__all__ = [
    "AllocatorConfig",
    "AllocatorConfigError",
    "AllocatorStats",
    "CachingAllocator",
    "Gauge",
    "OutOfDeviceMemory",
    "Prediction",
    "predict",
]
