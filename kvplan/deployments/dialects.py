"""The flags and variables of each engine that are facts, and how its program is called.

Only flags that are facts, and those whose values could be mistaken for something else, stand here;
vLLM has its whole table. Sources: SGLang 0.5 srt/server_args.py (argparse), TensorRT-LLM 1.0
commands/serve.py (click), llama.cpp b6000 common/arg.cpp, text-generation-inference 3 launcher
(clap), LMDeploy 0.7 cli/serve.py (argparse), Ollama 0.12 envconfig/config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from kvplan.engines.kit.flags import BOOLEAN, NONE, ONE, SWITCH, Flag
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import boolean
from kvplan.record import Record


class Dialect(Record):
    """How one engine is told its facts.

    Attributes:
        engine: its name.
        table: its flags.
        facts: flag name -> fact.
        positional: the fact that a word without a flag is.
        env: variable -> fact, for variables that the engine itself reads.
    """

    engine: str
    table: Table
    facts: Mapping[str, str]
    positional: str | None = None
    env: Mapping[str, str] = MappingProxyType({})


def _flags(rows: str) -> tuple[tuple[Flag, ...], dict[str, str]]:
    """Flags out of lines `fact spelling spelling`; `-` for one that is no fact, `!` a switch."""
    flags, facts = [], {}
    for row in rows.strip().splitlines():
        fact, *spellings = row.split()
        switch = fact == "!"
        name = spellings[0].lstrip("-").replace("-", "_")
        flags.append(
            Flag(
                name=name, spellings=tuple(spellings), takes=SWITCH if switch else ONE,
                read=boolean if switch else str, effect=NONE,
            )
        )  # fmt: skip
        if fact not in "-!":
            facts[name] = fact
    return tuple(flags), facts


_SGLANG = """
model --model-path --model
max_model_len --context-length
max_num_seqs --max-running-requests
max_num_batched_tokens --chunked-prefill-size
tp --tensor-parallel-size --tp-size --tp
pp --pipeline-parallel-size --pp-size --pp
dp --data-parallel-size --dp-size --dp
gpu_memory_fraction --mem-fraction-static
kv_cache_dtype --kv-cache-dtype
quantization --quantization
nodes --nnodes
- --node-rank
- --max-total-tokens
- --max-prefill-tokens
- --served-model-name
- --speculative-draft-model-path --speculative-draft-model
- --tokenizer-path
- --ep-size --ep --expert-parallel-size
- --moe-dense-tp-size
- --dtype
- --cuda-graph-max-bs
- --host
- --port
- --config
! --trust-remote-code
! --enable-dp-attention
! --enable-torch-compile
! --enable-metrics
! --disable-radix-cache
! --disable-cuda-graph
"""
_TRTLLM = """
model --model-path --model
max_model_len --max-seq-len
max_num_seqs --max-batch-size
max_num_batched_tokens --max-num-tokens
tp --tp-size --tensor-parallel-size
pp --pp-size --pipeline-parallel-size
gpu_memory_fraction --kv-cache-free-gpu-memory-fraction --free-gpu-memory-fraction
kv_cache_dtype --kv-cache-dtype
- --ep-size
- --max-beam-width
- --host
- --port
- --backend
- --served-model-name
- --extra-llm-api-options --extra-engine-args --config
- --kv-block-size
! --trust-remote-code
! --log-level
! --publish-events-and-metrics
"""
_LLAMACPP = """
model --model -m
model --hf-repo -hf -hfr --model-url -mu
max_model_len --ctx-size -c
max_num_seqs --parallel -np
max_num_batched_tokens --batch-size -b
kv_cache_dtype --cache-type-k -ctk
- --cache-type-v -ctv
- --ubatch-size -ub
- --n-gpu-layers -ngl --gpu-layers
- --model-draft -md
- --hf-file -hff
- --alias -a
- --threads -t
- --flash-attn -fa
- --host
- --port
- --n-predict -n --predict
- --fit-ctx -fitc
! --no-mmap
! --mlock
! --jinja
! --metrics
! --embedding
! --cont-batching -cb
! --kv-unified -kvu
! --swa-full
! --verbose -v
"""
_TGI = """
model --model-id
max_model_len --max-total-tokens
tp --num-shard
gpu_memory_fraction --cuda-memory-fraction
kv_cache_dtype --kv-cache-dtype
quantization --quantize
- --max-concurrent-requests
- --max-input-length --max-input-tokens
- --max-batch-prefill-tokens
- --max-batch-total-tokens
- --max-batch-size
- --revision
- --port
- --hostname
! --trust-remote-code
! --json-output
"""
_LMDEPLOY = """
max_model_len --session-len
max_num_seqs --max-batch-size
tp --tp
dp --dp
gpu_memory_fraction --cache-max-entry-count
kv_cache_dtype --quant-policy
- --model-name
- --model-format
- --backend
- --server-name
- --server-port
- --max-prefill-token-num
"""
_VLLM_FACTS = {
    "model": "model", "max_model_len": "max_model_len", "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens", "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp", "data_parallel_size": "dp",
    "gpu_memory_utilization": "gpu_memory_fraction", "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization", "nnodes": "nodes",
}  # fmt: skip


@cache
def dialect(engine: str) -> Dialect | None:
    """The dialect of an engine; None for one whose flags are not known."""
    if engine == "vllm":
        from kvplan.engines.vllm.options.flags import TABLE

        return Dialect(engine=engine, table=TABLE, facts=_VLLM_FACTS, positional="model")
    if engine == "sglang":
        return _made(engine, _SGLANG)
    if engine == "tensorrt_llm":
        return _made(engine, _TRTLLM, positional="model", abbreviates=False)
    if engine == "llamacpp":
        env = {"LLAMA_ARG_MODEL": "model", "LLAMA_ARG_HF_REPO": "model",
               "LLAMA_ARG_CTX_SIZE": "max_model_len", "LLAMA_ARG_N_PARALLEL": "max_num_seqs",
               "LLAMA_ARG_CACHE_TYPE_K": "kv_cache_dtype"}  # fmt: skip
        return _made(engine, _LLAMACPP, abbreviates=False, env=env)
    if engine == "tgi":
        env = {"MODEL_ID": "model", "MAX_TOTAL_TOKENS": "max_model_len", "NUM_SHARD": "tp",
               "CUDA_MEMORY_FRACTION": "gpu_memory_fraction", "QUANTIZE": "quantization",
               "KV_CACHE_DTYPE": "kv_cache_dtype"}  # fmt: skip
        return _made(engine, _TGI, abbreviates=False, env=env)
    if engine == "lmdeploy":
        return _made(engine, _LMDEPLOY, positional="model")
    if engine == "ollama":
        env = {"OLLAMA_CONTEXT_LENGTH": "max_model_len", "OLLAMA_NUM_PARALLEL": "max_num_seqs",
               "OLLAMA_KV_CACHE_TYPE": "kv_cache_dtype"}  # fmt: skip
        return _made(engine, "- --help", abbreviates=False, env=env)
    if engine == "nim":
        env = {"NIM_MAX_MODEL_LEN": "max_model_len", "NIM_TENSOR_PARALLEL_SIZE": "tp",
               "NIM_KVCACHE_PERCENT": "gpu_memory_fraction"}  # fmt: skip
        return _made(engine, "- --help", abbreviates=False, env=env)
    return None


def _made(
    engine: str,
    rows: str,
    *,
    positional: str | None = None,
    abbreviates: bool = True,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Dialect:
    flags, facts = _flags(rows)
    table = Table(engine=engine, flags=flags, abbreviates=abbreviates, opposites=False)
    return Dialect(engine=engine, table=table, facts=facts, positional=positional, env=env)


# What takes the place of a value that a plain map of options gives.
MAP_SWITCH = BOOLEAN
