"""The cache under continuous batching: requests over time against one pool of blocks.

    trace -> requests -> a stepper (who runs in each step) -> a cache (which blocks) -> summary

The clock counts executed steps; how long a step takes is not this room's business. Rules are those
of vLLM's own scheduler and cache manager (0.33.0; older switches in `switches`); nothing here knows
a model, only the groups of block tables that the engine's plan formed (`facts`).
"""
