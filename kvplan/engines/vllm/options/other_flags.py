"""vLLM's other flags, as data: those that leave the cache as it is, and those that may change it.

A line of `vllm serve` has ports, paths and parsers in it. They are known by name and passed over,
with their values. A flag that may change the cache, and that kvplan does not follow, is an error.

Source: the flags that vllm 0.33.0 declares (engine/arg_utils.py, entrypoints/common/cli_args.py),
and those that releases back to 0.2.4 had before (engine/arg_utils.py); envs.py for the settings.
"""

from __future__ import annotations

import re
from functools import cache

from kvplan.engines.kit.flags import NONE, ONE, SEVERAL, SWITCH, UNKNOWN, Flag

# Without their two dashes; short spellings with their one.
_SWITCHES = """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization calculate-kv-scales
    cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb
    data-parallel-hybrid-lb data-parallel-multi-port-external-lb dcp-q-replicate
    disable-async-output-proc disable-cascade-attn disable-chunked-mm-input
    disable-custom-all-reduce disable-fastapi-docs disable-log-requests disable-log-stats
    disable-mm-preprocessor-cache disable-nccl-for-dp-synchronization disable-uvicorn-access-log
    -dpe -dph -dpm enable-auto-tool-choice enable-batch-sharded-sampling
    enable-bf16x3-router-gemm enable-cumem-allocator enable-elastic-ep enable-ep-weight-filter
    enable-eplb enable-fault-tolerance enable-flash-late-interaction
    enable-flashinfer-autotune enable-force-include-usage enable-layerwise-nvtx-tracing
    enable-log-deltas enable-log-outputs enable-log-requests enable-logging-iteration-details
    enable-lora enable-mamba-cache-stochastic-rounding enable-mfu-metrics
    enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras
    enable-multimodal-encoder-data-parallel enable-nccl-comm-suspend enable-offline-docs
    enable-per-request-metrics enable-prompt-embeds enable-prompt-tokens-details
    enable-reasoning enable-request-id-headers enable-return-routed-experts enable-scale-out
    enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
    enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay
    engine-use-ray eplb-log-balancedness exclude-tools-when-tool-choice-none
    fail-on-environ-validation fully-sharded-loras grpc guided-decoding-disable-any-whitespace
    headless interleave-mm-strings jit-monitor-verbose kv-cache-metrics log-error-stack
    long-prefill-token-threshold-adaptive mm-device-do-normalize monokernel
    multi-step-stream-outputs numa-bind ray-workers-use-nsight return-sampling-mask
    return-tokens-as-token-ids scheduler-reserve-full-isl skip-mm-profiling skip-tokenizer-init
    sleep-mode-offload-cudagraph specialize-active-lora tokens-only trust-remote-code
    trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-tqdm-on-load
    use-v2-block-manager worker-use-ray
"""
_ONE = """
    all2all-backend allowed-headers allowed-local-media-path allowed-methods allowed-origins
    anthropic-disabled-thinking-effort api-server-count -asc aux-output-config chat-template
    chat-template-content-format code-revision cohere-format config-format
    cpu-distributed-timeout-seconds cpu-offload-gb data-parallel-address data-parallel-backend
    data-parallel-rank data-parallel-rpc-port data-parallel-size-local data-parallel-start-rank
    data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold
    dcp-comm-backend default-chat-template-kwargs default-mm-loras device device-ids
    disable-access-log-for-endpoints distributed-timeout-seconds download-dir
    dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s
    dp-supervisor-probe-timeout-s dp-sync-interval -dpa -dpb -dpl -dpn -dpp -dpr
    ec-manager-config ec-transfer-config elastic-ep-max-dp-size eplb-config eplb-step-interval
    eplb-window-size expert-placement-strategy fault-tolerance-config fingerprint-mode
    fingerprint-value generation-config grpc-port guided-decoding-backend h11-max-header-count
    h11-max-incomplete-event-size host io-processor-plugin ir-op-priority jit-monitor-mode
    kernel-config kv-cache-metrics-sample kv-events-config linear-backend load-format
    log-config-file log-level logging-config logits-processor-pattern logprobs-mode
    long-lora-scaling-factors long-prefill-token-threshold lora-dtype lora-extra-vocab-size
    mamba-cache-philox-rounds mamba-ssu-algorithm master-addr master-port
    max-context-len-to-capture max-cpu-loras max-cudagraph-capture-size max-log-len max-logprobs
    max-long-partial-prefills max-lora-cls-labels max-lora-rank max-loras max-num-active-seqs
    max-num-partial-prefills max-num-queued-reqs max-num-queued-tokens
    max-parallel-loading-workers max-seq-len-to-capture media-io-kwargs middleware
    mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path
    mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-tp-mode
    mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type
    mm-processor-device mm-processor-kwargs mm-shm-cache-max-object-size-mb mm-tensor-ipc
    model-loader-extra-config moe-backend -n nnodes node-rank num-redundant-experts
    offload-backend offload-group-size offload-num-in-group offload-prefetch-step
    otlp-traces-endpoint override-generation-config
    per-request-spec-decode-metrics port preemption-mode prefill-schedule-interval
    prefix-caching-hash-algo profiler-config pt-load-map-location -r reasoning-config
    reasoning-effort-map reasoning-parser reasoning-parser-plugin renderer-num-workers
    response-role revision root-path safetensors-load-strategy safetensors-prefetch-block-size
    safetensors-prefetch-num-threads scheduler-delay-factor scheduling-policy seed
    show-hidden-metrics-for-version shutdown-timeout sleep-mode-backend
    sparse-indexer-topk-backend sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
    ssl-ciphers ssl-keyfile stream-interval structured-outputs-config tokenizer
    tokenizer-mode tokenizer-pool-extra-config tokenizer-pool-size tokenizer-pool-type
    tokenizer-revision tool-call-parser tool-parser-plugin tool-server tool-strict-level uds
    uvicorn-log-level video-pruning-method video-pruning-rate watchdog-config watermark
    weight-transfer-config worker-extension-cls
"""
_SEVERAL = """
    allowed-media-domains api-key collect-detailed-traces cpu-offload-params cuda-graph-sizes
    cudagraph-capture-sizes custom-histogram-buckets hf-token ignore-patterns logits-processors
    lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes offload-params
    served-model-name sleep-preserve-parameter-names
"""
_CHANGING_SWITCHES = """
    disable-sliding-window enable-dbo enable-hc-sp enable-mamba-fine-grained-prefix-cache
    enable-mamba-shared-prefix-checkpoint kv-sharing-fast-prefill mm-encoder-only
    swa-bounded-replay use-replayssm
"""
_CHANGING = """
    -ac additional-config attention-config config convert cp-kv-cache-interleave-size -dc
    dcp-kv-cache-interleave-size diffusion-config engram-config
    forced-num-gpu-blocks gdn-prefill-backend hf-config-path hf-overrides kda-decode-backend
    kda-prefill-backend kv-offloading-backend kv-offloading-size kv-transfer-config
    limit-mm-per-prompt mamba-backend max-num-scheduled-tokens model
    model-class-overrides model-impl num-lookahead-slots num-scheduler-steps
    num-speculative-tokens override-attention-dtype override-pooler-config -pcp performance-mode
    pooler-config prefill-context-parallel-size prefix-cache-retention-interval
    prefix-match-unit quantization-config replayssm-buffer-len rope-scaling rope-theta runner
    scheduler-cls spec-method spec-model spec-tokens speculative-model task ubatch-size
    watermark-config worker-cls
"""

# Values with which a flag that may change the cache does not.
_HARMLESS = {
    "--convert": r"auto|none",
    "--limit-mm-per-prompt": r"(?!.*(?<![\d.])0(?![\d.])).*",  # none of a kind is another model
    "--model-impl": r"auto|vllm",
    "--num-scheduler-steps": r"1",
    "--performance-mode": r"balanced|interactivity",
    "--prefill-context-parallel-size": r"1",
    "-pcp": r"1",
    "--runner": r"auto|generate",
    "--task": r"auto|generate",
    "--ubatch-size": r"0|1",
}

INSTEAD = {
    "--attention-config": "--attention-backend is read",
    "-ac": "--attention-backend is read",
    "--config": "write the flags of that file here",
    "--limit-mm-per-prompt": "--language-model-only is read",
    "--model": "name the model as kvplan's MODEL",
    "--num-speculative-tokens": "--speculative-config '{...}' is read",
    "--spec-method": "--speculative-config '{...}' is read",
    "--spec-model": "--speculative-config '{...}' is read",
    "--spec-tokens": "--speculative-config '{...}' is read",
    "--speculative-model": "--speculative-config '{...}' is read",
    "VLLM_ATTENTION_BACKEND": "--attention-backend is read",
    "VLLM_USE_V1": "--engine vllm@0.7.3 is the newest engine before V1",
}

# Settings of vLLM's environment that leave the cache as it is.
_SETTINGS = re.compile(
    r"VLLM_(LOGGING_\w+|LOG_\w+|CONFIGURE_LOGGING|HOST_IP|PORT|RPC_BASE_PATH|API_KEY|CACHE_ROOT"
    r"|CONFIG_ROOT|ASSETS_CACHE|MEDIA_\w+|USAGE_\w+|NO_USAGE_STATS|DO_NOT_TRACK|USE_MODELSCOPE"
    r"|WORKER_MULTIPROC_METHOD|ENABLE_V1_MULTIPROCESSING|ENGINE_READY_TIMEOUT_S|TRACE_FUNCTION"
    r"|EXECUTE_MODEL_TIMEOUT_SECONDS|HTTP_TIMEOUT_KEEP_ALIVE|SERVER_DEV_MODE|KEEP_ALIVE_\w+"
    r"|NCCL_\w+|USE_FLASHINFER_SAMPLER|ALLOW_RUNTIME_LORA_UPDATING|USE_DEEP_GEMM|DISABLED_KERNELS"
    r"|IMAGE_FETCH_TIMEOUT|VIDEO_FETCH_TIMEOUT|AUDIO_FETCH_TIMEOUT|SKIP_P2P_CHECK|DP_\w+)"
)


@cache
def other_flags() -> tuple[Flag, ...]:
    """One row for each of them, its long spelling for a name."""
    return tuple(
        Flag(
            name=spelling, spellings=(spelling,), takes=takes, effect=effect,
            harmless=_HARMLESS.get(spelling), instead=INSTEAD.get(spelling),
        )
        for text, takes, effect in (
            (_SWITCHES, SWITCH, NONE), (_ONE, ONE, NONE), (_SEVERAL, SEVERAL, NONE),
            (_CHANGING_SWITCHES, SWITCH, UNKNOWN), (_CHANGING, ONE, UNKNOWN),
        )
        for word in text.split()
        for spelling in [word if word.startswith("-") else f"--{word}"]
    )  # fmt: skip


def is_harmless_setting(name: str) -> bool:
    """Whether a setting of the environment leaves the cache as it is."""
    return not name.startswith("VLLM_") or _SETTINGS.fullmatch(name) is not None
