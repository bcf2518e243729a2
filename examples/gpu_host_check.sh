#!/bin/sh
# Every device check of kvplan on a host with one GPU, in under 8 minutes, into one report file.
#
#     sh examples/gpu_host_check.sh [REPORT]        default: gpu_host_report.txt
#
# Needs kvplan with torch (`pip install 'kvplan[verify]'`); PYTHON names the interpreter. It takes
# at most 8 GiB of the GPU, frees all of it, and changes no setting. The exit code is 0 when every
# check agreed, else 1. The report says what ran, what it printed and how it ended.
set -u
report=${1:-gpu_host_report.txt}
python=${PYTHON:-python3}
deadline=$(($(date +%s) + 470))
failed=0
: > "$report" || exit 2

say() { printf '%s\n' "$*" >> "$report"; }

# check NAME EXPECTED_EXIT_CODE [VARIABLE=VALUE...] -- ARGUMENTS OF kvplan
check() {
    name=$1 expected=$2
    shift 2
    settings=""
    while [ "$1" != "--" ]; do settings="$settings $1"; shift; done
    shift
    left=$((deadline - $(date +%s)))
    if [ "$left" -lt 10 ]; then say "SKIPPED $name: out of time"; failed=1; return; fi
    say "" "== $name:$settings kvplan $*"
    began=$(date +%s)
    # shellcheck disable=SC2086 - settings are words
    env $settings timeout "$left" "$python" -m kvplan "$@" >> "$report" 2>&1
    code=$?
    verdict=ok
    [ "$code" = "$expected" ] || { verdict=FAILED; failed=1; }
    say "-- $verdict: exit code $code, expected $expected, $(($(date +%s) - began)) s"
    echo "$verdict $name"
}

say "kvplan on a GPU host, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
"$python" -m kvplan --version >> "$report" 2>&1
"$python" -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "hip", torch.version.hip)' >> "$report" 2>&1
(nvidia-smi || rocm-smi) >> "$report" 2>&1

most="--max-bytes 8GiB --device cuda"
# shellcheck disable=SC2086 - options are words
for options in "" "expandable_segments:True" "max_split_size_mb:64" "roundup_power2_divisions:8"; do
    check "allocator '$options'" 0 "PYTORCH_CUDA_ALLOC_CONF=$options" -- \
        verify llama3-8b --ctx 4096 $most
done
for model in deepseek-v3 gemma-3-27b qwen3.6-27b deepseek-v3.2 llama-4-scout; do
    for engine in logical vllm transformers; do
        # shellcheck disable=SC2086
        check "$model, $engine" 0 -- verify "$model" --engine "$engine" --ctx 4096 $most
    done
done
for dtype in fp8 q8_0 int8_per_token_head; do
    # shellcheck disable=SC2086
    check "format $dtype" 0 -- verify llama3-8b --ctx 4096 --dtype "$dtype" $most
done
# shellcheck disable=SC2086
check "no caching: nothing is predicted" 0 PYTORCH_NO_CUDA_MEMORY_CACHING=1 -- \
    verify llama3-8b --ctx 1000 $most
# shellcheck disable=SC2086
check "another backend: nothing is predicted" 0 PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync -- \
    verify llama3-8b --ctx 1000 $most
check "no room: refused before anything is allocated" 2 -- \
    verify llama3-8b --ctx 8192 --batch 100000 --device cuda
# shellcheck disable=SC2086
check "decode on the GPU" 0 -- verify llama3-8b --ctx 1024 --decode $most
# shellcheck disable=SC2086
check "decode of a hybrid on the GPU" 0 -- verify qwen3.6-27b --ctx 1024 --decode --quick $most

say "" "$([ "$failed" = 0 ] && echo "every check ended as expected" || echo "SOME CHECKS FAILED")"
echo "report: $report"
exit "$failed"
