"""Small files of their own form: Ollama's Modelfile, Triton's config.pbtxt, files of variables."""

from __future__ import annotations

import re

from kvplan.deployments.draft import Draft, empty
from kvplan.deployments.text import plain
from kvplan.deployments.variables import Refs

_FROM = re.compile(r"^FROM[ \t]+(\S[^\n]*?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PARAMETER = re.compile(r"^PARAMETER[ \t]+(\w+)[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)
_LONG = re.compile(r'"""[\s\S]*?"""')
_PAIR = re.compile(r'key\s*:\s*"([\w.-]+)"\s*,?\s*value\s*:?\s*\{\s*string_value\s*:\s*"([^"\n]*)"')
_SETTING = re.compile(r"^(?:export[ \t]+)?([A-Z][A-Z0-9_]*)=([^\n]*)$", re.MULTILINE)


def read_modelfile(text: str) -> list[Draft]:
    """`FROM` and `PARAMETER num_ctx`; what stands between triple quotes is the model's."""
    mapped = plain(text)
    bare = _LONG.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    base = _FROM.search(bare)
    if base is None:
        return []
    place = mapped.place(base.start())
    draft = empty("Modelfile", place[0], Refs())
    draft.put("engine", "ollama", place, "FROM")
    draft.say("model", base[1], mapped.place(base.start(1)), "FROM")
    for found in _PARAMETER.finditer(bare):
        if found[1] == "num_ctx":
            draft.say("max_model_len", found[2], mapped.place(found.start(2)), "num_ctx")
    return [draft]


_TRITON = {
    "model_name": "model", "model": "model", "gpu_memory_utilization": "gpu_memory_fraction",
    "max_model_len": "max_model_len", "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp", "max_num_seqs": "max_num_seqs",
    "kv_cache_free_gpu_mem_fraction": "gpu_memory_fraction",
    "max_num_batched_tokens": "max_num_batched_tokens", "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization", "gpt_model_path": "model",
}  # fmt: skip
_BACKEND = re.compile(r'^\s*backend\s*:\s*"(vllm|tensorrtllm)"', re.MULTILINE)


def read_pbtxt(text: str) -> list[Draft]:
    """Parameters of a Triton model that a language model's engine reads."""
    bare = re.sub(r"#[^\n]*", lambda found: " " * len(found.group()), text)
    mapped = plain(text)
    pairs = list(_PAIR.finditer(bare))
    names = {found[1] for found in pairs}
    engine: str | None = None
    told: re.Match[str] | None = None
    for found in pairs:
        if found[1] in ("gpu_memory_utilization", "max_model_len"):
            engine, told = engine or "vllm", told or found
        elif found[1] in (
            "kv_cache_free_gpu_mem_fraction",
            "gpt_model_type",
            "batch_scheduler_policy",
        ):
            engine, told = engine or "tensorrt_llm", told or found
    backend = _BACKEND.search(bare)
    if backend is not None:
        engine = {"vllm": "vllm", "tensorrtllm": "tensorrt_llm"}[backend[1]]
        told = backend
    if engine is None or told is None or (not names & set(_TRITON) and backend is None):
        return []
    draft = empty("triton", 1, Refs())
    draft.put("engine", engine, mapped.place(told.start(1)), told[1])
    for found in pairs:
        fact = _TRITON.get(found[1])
        if fact is not None and not found[2].startswith("${"):
            draft.say(fact, found[2], mapped.place(found.start(2)), found[1])
    group = re.search(r"instance_group\s*:?\s*\[[^\]]*?count\s*:\s*(\d+)", bare)
    if group:
        draft.say("replicas", group[1], mapped.place(group.start(1)), "instance_group")
    return [draft]


_OLLAMA = {
    "OLLAMA_CONTEXT_LENGTH": "max_model_len", "OLLAMA_NUM_PARALLEL": "max_num_seqs",
    "OLLAMA_KV_CACHE_TYPE": "kv_cache_dtype",
}  # fmt: skip


def read_settings(text: str) -> list[Draft]:
    """A file of variables: Ollama's own name the engine, all others are somebody's to use."""
    mapped = plain(text)
    draft: Draft | None = None
    for found in _SETTING.finditer(text):
        fact = _OLLAMA.get(found[1])
        if fact is None:
            continue
        place = mapped.place(found.start(2))
        if draft is None:
            draft = empty("ollama", place[0], Refs())
            draft.put("engine", "ollama", place, found[1])
        value = found[2].partition(" #")[0].strip().strip("'\"")
        draft.say(fact, value, place, found[1], through=True)
    return [draft] if draft is not None else []
