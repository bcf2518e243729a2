"""llama-server's other flags, as data: those that leave the cache as it is, and those that may not.

A line of `llama-server` has ports, samplers and threads in it. They are known by name and passed
over, with their values. A flag that may change the cache, and that kvplan does not follow, is an
error.

Source: the flags that llama.cpp b11434 declares (common/arg.cpp).
"""

from __future__ import annotations

from functools import cache

from kvplan.engines.kit.flags import NONE, ONE, SWITCH, UNKNOWN, Flag

# Without their two dashes; short spellings with their one.
_SWITCHES = """
    -ag agent backend-sampling -bs cache-idle-slots cache-list cache-prompt -cb check-tensors
    -cl -cmoed -cnv completion-bash cont-batching context-shift conversation cors-credentials
    cpu-moe-draft display-prompt -e escape -h help -i -if ignore-eos in-prefix-bos interactive
    interactive-first jinja list-devices log-colors log-disable log-file log-jsonl log-prefix
    log-timestamps log-verbose metrics -mli mmproj-auto mmproj-offload models-autoload
    multiline-input -no-ag -no-cnv no-host no-mmproj -nocb -nr offline perf prefill-assistant
    prompt-cache-all prompt-cache-ro props reasoning-preserve repack reuse-port show-timings
    simple-io single-turn skip-chat-parsing slots -sp spec-draft-backend-sampling
    spec-draft-cpu-moe special spm-infill -st ui ui-mcp-proxy usage -v verbose verbose-prompt
    version warmup webui webui-mcp-proxy
"""
_ONE = """
    -C -Cb -Cbd -Cd -Cr -Crb -Crbd -Crd -a adaptive-target alias api-key api-key-file
    api-prefix audio -bf binary-file cache-reuse chat-template chat-template-file
    chat-template-kwargs checkpoint-min-step -cms -co color control-vector-layer-range
    cors-headers cors-methods cors-origins cpu-mask cpu-mask-batch cpu-mask-batch-draft
    cpu-mask-draft cpu-range cpu-range-batch cpu-range-batch-draft cpu-range-draft cpu-strict
    cpu-strict-batch cpu-strict-batch-draft cpu-strict-draft defrag-thold -devd device-draft
    draft-min draft-n-min draft-p-min draft-p-split dry-allowed-length dry-base dry-multiplier
    dry-penalty-last-n dry-sequence-breaker -dt dynatemp-exp dynatemp-range embd-normalize -f
    file fit-print -fitp frequency-penalty from-chunk gpu-layers-draft grammar grammar-file
    hf-token -hft host image image-max-tokens image-min-tokens in-file in-prefix in-suffix -j
    -jf json-schema json-schema-file keep -l lazy-mode -lcd -lcs -lm load-mode log-prompts-dir
    log-verbosity logit-bias lookup-cache-dynamic lookup-cache-static -lv -lzm
    mcp-servers-config mcp-servers-json media-path min-p mirostat mirostat-ent mirostat-lr
    models-max mtmd-batch-max-tokens -n n-cpu-moe-draft n-gpu-layers-draft n-predict -ncmoed
    -ngld numa -o -otd output override-tensor-draft -p path poll poll-batch poll-batch-draft
    poll-draft port predict presence-penalty print-token-count prio prio-batch
    prio-batch-draft prio-draft prompt prompt-cache -ptc -r -rea reasoning reasoning-budget
    reasoning-budget-message reasoning-effort reasoning-format repeat-last-n repeat-penalty
    reverse-prompt rope-freq-base rope-freq-scale rope-scale rope-scaling -s sampler-seq
    samplers sampling-seq seed server-base sleep-idle-seconds slot-prompt-similarity
    slot-save-path spec-draft-cpu-mask spec-draft-cpu-mask-batch spec-draft-cpu-range
    spec-draft-cpu-range-batch spec-draft-cpu-strict spec-draft-cpu-strict-batch
    spec-draft-device spec-draft-n-cpu-moe spec-draft-n-min spec-draft-ncmoe spec-draft-ngl
    spec-draft-override-tensor spec-draft-p-min spec-draft-p-split spec-draft-poll
    spec-draft-poll-batch spec-draft-prio spec-draft-prio-batch spec-draft-sampling
    spec-draft-threads spec-draft-threads-batch spec-ngram-map-k-min-hits
    spec-ngram-map-k-size-m spec-ngram-map-k-size-n spec-ngram-map-k4v-min-hits
    spec-ngram-map-k4v-size-m spec-ngram-map-k4v-size-n spec-ngram-min-hits
    spec-ngram-mod-n-match spec-ngram-mod-n-max spec-ngram-mod-n-min
    spec-ngram-simple-min-hits spec-ngram-simple-size-m spec-ngram-simple-size-n
    spec-ngram-size-m spec-ngram-size-n spec-synth-len spec-synth-rates -sps sse-ping-interval
    ssl-cert-file ssl-key-file -sys -sysf system-prompt system-prompt-file -t tags -tb -tbd
    -td temp temperature threads threads-batch threads-batch-draft threads-draft threads-http
    timeout -to tools tools-runtime top-k top-n-sigma top-nsigma top-p tts-speaker-file
    typical typical-p ui-config ui-config-file verbosity video video-ffmpeg-dir video-fps
    video-timestamp-interval webui-config webui-config-file xtc-probability xtc-threshold
    yarn-attn-factor yarn-beta-fast yarn-beta-slow yarn-ext-factor yarn-orig-ctx
"""
_CHANGING_SWITCHES = """
    dflash eagle3 embd-gemma-default embedding embeddings fim-qwen-1.5b-default
    fim-qwen-14b-spec fim-qwen-30b-default fim-qwen-3b-default fim-qwen-7b-default
    fim-qwen-7b-spec gpt-oss-120b-default gpt-oss-20b-default mtp rerank reranking
    spec-default vision-gemma-12b-default vision-gemma-4b-default
"""
_CHANGING = """
    attention cache-type-k-draft cache-type-v-draft control-vector control-vector-scaled -ctkd
    -ctvd -dev device docker-repo -dr -gan -gaw grp-attn-n grp-attn-w -hf hf-file hf-repo
    hf-repo-draft -hfd -hff -hfr -hfrd lora lora-scaled -m -md mmproj-url -mmu model
    model-draft model-url models-dir models-preset -mu n-cpu-ffn -ncffn -ns override-kv
    pooling rpc sequences spec-draft-hf spec-draft-model spec-draft-type-k spec-draft-type-v
    tts-lang
"""

# Flags of older builds.
_OLDER_SWITCHES = "mlock no-mmap mmap -nommap cont-batching -cb -nocb no-cont-batching no-ui"

# Values with which a flag that may change the cache does not.
_HARMLESS = {
    "--attention": r"causal",
    "--grp-attn-n": r"1",
    "-gan": r"1",
    "--n-cpu-ffn": r"0",
    "-ncffn": r"0",
    "--pooling": r"none",
}

INSTEAD = {
    "--device": "--gpu names the devices",
    "-dev": "--gpu names the devices",
    "--model": "name the model as kvplan's MODEL",
    "-m": "name the model as kvplan's MODEL",
    "--hf-repo": "name the model as kvplan's MODEL",
    "-hf": "name the model as kvplan's MODEL",
}


@cache
def other_flags() -> tuple[Flag, ...]:
    """The rows of all these flags."""
    rows = []
    for words, takes, effect in (
        (_SWITCHES, SWITCH, NONE),
        (_OLDER_SWITCHES, SWITCH, NONE),
        (_ONE, ONE, NONE),
        (_CHANGING_SWITCHES, SWITCH, UNKNOWN),
        (_CHANGING, ONE, UNKNOWN),
    ):
        for word in words.split():
            spelling = word if word.startswith("-") else f"--{word}"
            rows.append(
                Flag(
                    name=spelling.lstrip("-").replace("-", "_"),
                    spellings=(spelling,),
                    takes=takes,
                    effect=effect,
                    harmless=_HARMLESS.get(spelling),
                    instead=INSTEAD.get(spelling),
                )
            )
    return tuple(rows)
