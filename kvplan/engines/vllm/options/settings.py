"""The options of one request, read once: what was given, and what vLLM would settle by itself.

Values that depend on the model (block size, cache format, length) are settled later, where they are
needed; here stand the flags, the GPU and the defaults that need nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvplan.engines.layout import Provenance
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.gpus import DEFAULT_GPU, Gpu, batch_defaults, find_gpu
from kvplan.engines.vllm.facts.versions import Rules, cited
from kvplan.engines.vllm.options.asked import cache_dtype, ranks
from kvplan.engines.vllm.options.flags import FLAGS, read_options
from kvplan.errors import UsageError


@dataclass(frozen=True, slots=True)
class Speculation:
    """`--speculative-config`: the method, its tokens, and the draft model's name."""

    method: str
    tokens: int
    model: str | None

    @property
    def has_draft_layers(self) -> bool:
        """True when layers of the checkpoint itself draft (MTP)."""
        return self.method == "mtp" or self.method.endswith("_mtp")

    @property
    def is_eagle_like(self) -> bool:
        """True for methods that read the target's hidden states."""
        return self.has_draft_layers or self.method in ("eagle", "eagle3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The flags that matter, typed; see `flags` for their meaning.

    `length` is --max-model-len or the request's ctx: None when neither is given, -1 for auto.
    `given` names the options that were written down.
    """

    rules: Rules
    gpu: Gpu
    length: int | None
    model_dtype: str
    cache_dtype: str
    attention_backend: str | None
    tp: int
    pp: int
    dcp: int
    block_size: int | None
    state_block_size: int | None
    state_cache_mode: str
    batched_tokens: int | None
    max_seqs: int | None
    prefix_caching: bool | None
    chunked_prefill: bool | None
    async_scheduling: bool
    full_graphs: bool
    executor: str | None
    hybrid_disabled: bool | None
    language_model_only: bool
    skip_layers: tuple[str, ...]
    state_dtype: str
    matrix_dtype: str
    speculation: Speculation | None
    blocks_override: int | None
    cache_bytes: int | None
    layout: str | None
    partition: str | None
    latent_disabled: bool
    long_length_allowed: bool
    chunked_local_hybrid: bool
    model_runner_v2: bool | None
    transformers_5: bool
    given: frozenset[str]
    provenance: tuple[Provenance, ...]

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens per step, 0 without speculation."""
        return self.speculation.tokens if self.speculation else 0

    @property
    def seqs(self) -> int:
        """max_num_seqs, given or by default."""
        return self.max_seqs or batch_defaults(self.gpu, self.rules.batch_class)[1]

    def concurrent_batches(self, *, runner_v2: bool) -> int:
        """Batches in flight: one per pipeline stage, one more with async scheduling."""
        if not self.rules.in_flight_batches:
            return 1
        if not self.async_scheduling:
            return self.pp
        if runner_v2:
            return self.pp + 1
        return 2 if self.pp == 1 else self.pp

    def whole_prompts(self, *, chunked_prefill: bool) -> bool:
        """Whether a step is made as long as the longest prompt, because none may be cut."""
        if self.batched_tokens is not None:
            return False
        return not (chunked_prefill if self.chunked_prefill is None else self.chunked_prefill)

    def batched_tokens_for(self, length: int, *, chunked_prefill: bool) -> tuple[int, str | None]:
        """max_num_batched_tokens, and the rule that settled it when it was not given."""
        if self.batched_tokens is not None:
            return self.batched_tokens, None
        tokens, _ = batch_defaults(self.gpu, self.rules.batch_class)
        if self.whole_prompts(chunked_prefill=chunked_prefill):
            tokens = max(tokens, length)
        if self.rules.batch_class == "v0":
            return tokens, "config.py SchedulerConfig"
        return min(tokens, self.seqs * length), "engine/arg_utils.py (vllm serve)"


def read_settings(request: Request, rules: Rules) -> Settings:
    """Read a request for one version.

    Raises:
        UsageError: an unknown option, a value its flag cannot take, or two that contradict.
    """
    values = read_options(request.options)
    notes: list[Provenance] = []

    def value(name: str) -> Any:
        return values.get(name, FLAGS[name].default)

    gpu = find_gpu(value("gpu"))
    if "gpu" not in values:
        notes.append(
            Provenance("gpu", DEFAULT_GPU, "kvplan: no device named; kernels as on Hopper")
        )
    if request.with_draft and value("speculative_config") is None:
        raise UsageError(
            "vllm has draft layers only with speculative decoding",
            hint="give --engine-args \"--speculative-config '{...}'\" instead of draft layers",
        )
    if "gpu_memory_utilization" not in values:
        notes.append(_noted("gpu_memory_utilization", rules.gpu_memory_utilization, rules))
    given_chunked = value("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE")
    async_scheduling = value("async_scheduling")
    if async_scheduling is None:
        async_scheduling = rules.async_scheduling
        if not rules.is_v0:
            notes.append(_noted("async_scheduling", async_scheduling, rules))
    return Settings(
        rules=rules,
        gpu=gpu,
        length=_length(values.get("max_model_len"), request),
        model_dtype=value("dtype"),
        cache_dtype=cache_dtype(values.get("kv_cache_dtype"), request),
        attention_backend=_backend(value("attention_backend")),
        tp=ranks("tensor_parallel_size", values, request.tp),
        pp=ranks("pipeline_parallel_size", values, request.pp),
        dcp=ranks("decode_context_parallel_size", values, request.dcp),
        block_size=_positive("block_size", value("block_size")),
        state_block_size=value("mamba_block_size"),
        state_cache_mode=value("mamba_cache_mode"),
        batched_tokens=_positive("max_num_batched_tokens", value("max_num_batched_tokens")),
        max_seqs=_positive("max_num_seqs", value("max_num_seqs")),
        prefix_caching=value("enable_prefix_caching"),
        chunked_prefill=value("enable_chunked_prefill"),
        async_scheduling=async_scheduling,
        full_graphs=_full_graphs(
            value("enforce_eager"), value("compilation_config"), value("optimization_level")
        ),
        executor=value("distributed_executor_backend"),
        hybrid_disabled=value("disable_hybrid_kv_cache_manager"),
        language_model_only=value("language_model_only"),
        skip_layers=value("kv_cache_dtype_skip_layers"),
        state_dtype=_state_dtype("mamba_cache_dtype", value("mamba_cache_dtype")),
        matrix_dtype=_state_dtype("mamba_ssm_cache_dtype", value("mamba_ssm_cache_dtype")),
        speculation=_speculation(value("speculative_config")),
        blocks_override=_positive("num_gpu_blocks_override", value("num_gpu_blocks_override")),
        cache_bytes=_positive("kv_cache_memory_bytes", value("kv_cache_memory_bytes")),
        layout=value("VLLM_KV_CACHE_LAYOUT"),
        partition=value("VLLM_PP_LAYER_PARTITION"),
        latent_disabled=value("VLLM_MLA_DISABLE"),
        long_length_allowed=value("VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
        chunked_local_hybrid=(rules.chunked_groups if given_chunked is None else given_chunked),
        model_runner_v2=value("VLLM_USE_V2_MODEL_RUNNER"),
        transformers_5=str(value("transformers") or "").startswith(("5", "6")),
        given=frozenset(values),
        provenance=tuple(notes),
    )


# CUDA graph modes without full graphs, by name and by their numbers.
_PARTIAL_GRAPHS = ("NONE", "PIECEWISE", "0", "1")


def _full_graphs(eager: bool, compilation: dict[str, Any] | None, level: int | None) -> bool:
    """Whether whole decode steps are captured: yes by default (FULL_AND_PIECEWISE)."""
    mode = (compilation or {}).get("cudagraph_mode")
    if eager:
        return False
    if mode is not None:
        return str(mode).upper() not in _PARTIAL_GRAPHS
    return level is None or level >= 2


def _noted(name: str, value: object, rules: Rules) -> Provenance:
    origin = cited(FLAGS[name].origin, rules)
    return Provenance(name, str(value).lower(), f"vllm {rules.version} {origin}")


def _length(flag: int | None, request: Request) -> int | None:
    if flag is not None and flag != -1 and flag < 1:
        raise UsageError(f"vllm max_model_len is {flag}, it must be at least 1, or -1 for auto")
    return request.ctx if flag is None else flag


def _backend(name: str | None) -> str | None:
    return None if name is None or name.lower() == "auto" else name.upper()


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"vllm {name} is {value}, it must be at least 1")
    return value


def _state_dtype(name: str, value: str) -> str:
    if value not in ("auto", "float32", "float16", "bfloat16"):
        raise UsageError(
            f"vllm {name} cannot be {value!r}", hint="auto, float32, float16 or bfloat16"
        )
    return value


def _speculation(config: dict[str, Any] | None) -> Speculation | None:
    if config is None:
        return None
    tokens = config.get("num_speculative_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise UsageError(
            "vllm speculative_config lacks num_speculative_tokens",
            hint="write how many tokens are drafted per step",
        )
    model = config.get("model")
    method = config.get("method")
    if method is None:
        if model is None:
            raise UsageError("vllm speculative_config names neither a method nor a model")
        method = "ngram" if model in ("ngram", "[ngram]") else "draft_model"
    return Speculation(str(method), tokens, None if model is None else str(model))
