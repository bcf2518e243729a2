"""Files that are a map of one engine's options: `vllm serve --config`, SGLang's, TensorRT-LLM's.

Nothing names the engine but its own words: an option that only one engine has.
"""

from __future__ import annotations

import re

from kvplan.deployments.draft import Draft
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_OWN = (
    (
        "sglang",
        (
            "mem-fraction-static",
            "context-length",
            "max-running-requests",
            "chunked-prefill-size",
            "disable-radix-cache",
            "disaggregation-mode",
            "moe-runner-backend",
        ),
    ),
    (
        "tensorrt_llm",
        (
            "kv-cache-free-gpu-mem-fraction",
            "kv-cache-free-gpu-memory-fraction",
            "kv-cache-config",
            "cuda-graph-padding-enabled",
            "cuda-graph-config",
            "enable-attention-dp",
            "disable-overlap-scheduler",
            "llm-api-args",
            "cache-transceiver-config",
            "moe-max-num-tokens",
            "max-seq-len",
        ),
    ),
    (
        "vllm",
        (
            "gpu-memory-utilization",
            "max-model-len",
            "max-num-seqs",
            "max-num-batched-tokens",
            "enforce-eager",
            "enable-prefix-caching",
        ),
    ),
)
_FACTS = re.compile(
    r"(max-model-len|tensor-parallel-size|gpu-memory-utilization|max-num-seqs|kv-cache-dtype|"
    r"max-num-batched-tokens|model|model-path|tp|tp-size|context-length|mem-fraction-static|"
    r"kv-cache-config|max-batch-size|max-seq-len|max-num-tokens|quantization|"
    r"kv-cache-free-gpu-mem(ory)?-fraction|pipeline-parallel-size|data-parallel-size)"
)


def engine_of_keys(node: Node) -> tuple[str, Node] | None:
    """The engine whose options a mapping holds, and the option that tells it best."""
    keys = {key.lstrip("-").replace("_", "-"): value for key, value in node.items()}
    for engine, names in _OWN:
        for name in names:
            if name in keys:
                return engine, keys[name]
    return None


def claims(node: Node) -> bool:
    """A mapping with an option that one engine alone has, and at least one that is a fact."""
    if not node.is_map or node.get("kind") or node.get("services"):
        return False
    keys = [key.lstrip("-").replace("_", "-") for key in node.data]
    return engine_of_keys(node) is not None and any(_FACTS.fullmatch(key) for key in keys)


def read(node: Node, world: World) -> list[Draft]:
    """The one engine."""
    told = engine_of_keys(node)
    if told is None:
        return []
    engine, value = told
    first = next(iter(node.items()))[1]
    draft = Draft("options", first.place(key=True)[0], Scope(world.refs, world.host))
    draft.put("engine", engine, value.place(key=True), value.key)
    read_options(engine, node, draft)
    if engine == "tensorrt_llm":
        inner = node.get("llm_api_args")
        if inner.is_map:
            other = Draft("", 1, draft.scope)
            read_options(engine, inner, other)
            draft.fill(other)
    return [draft]
