"""How vLLM lays out a KV cache: pages of layers, groups of pages, one pool of blocks per GPU.

    ModelSpec -> layer specs -> block size -> equal pages -> groups -> bytes per block -> blocks

Each room holds one step; `planning` walks them and `engine` answers. The build followed is vllm
0.33.0; what changed before it is data in `versions`. `flags` is the one table of vLLM's options
that matter to the cache.
"""

from __future__ import annotations

from kvplan.engines.vllm.engine import VllmEngine

__all__ = ["VllmEngine"]
