"""What vLLM's releases do, as one table: each row a change, from the release that brought it.

`rules_of` folds the rows up to a release. A row says in one sentence what changed, where it stands
in that release, and whether the release's own code was run for it ("driven") or only read ("read").
Between two releases that were looked at nothing is known to change; what a release itself is worth
is its `claim`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from kvplan.engines.kit.versions import (
    DRIVEN,
    NEAREST,
    READ,
    Change,
    Claim,
    History,
    as_version,
)

DRIVEN_RELEASES = (
    "0.6.6.post1", "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.13.0", "0.15.1", "0.17.0", "0.19.0",
    "0.20.0", "0.23.0", "0.25.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0",
)  # fmt: skip
READ_RELEASES = (
    "0.2.4", "0.4.0", "0.5.4", "0.6.3.post1", "0.7.0", "0.7.1", "0.7.3", "0.8.0", "0.8.1", "0.8.3",
    "0.8.4", "0.9.0", "0.9.1", "0.10.0", "0.10.1", "0.11.1", "0.12.0", "0.14.0", "0.16.0", "0.18.0",
    "0.20.1", "0.22.0", "0.24.0", "0.26.0", "0.27.0", "0.29.0", "0.31.0",
)  # fmt: skip
# Patches whose planning code is that of another release, held together file by file.
SAME_PLANNING = {
    "0.6.6": "0.6.6.post1", "0.8.5.post1": "0.8.5", "0.9.0.1": "0.9.0", "0.10.1.1": "0.10.1",
    "0.11.2": "0.11.1", "0.14.1": "0.14.0", "0.15.0": "0.15.1", "0.17.1": "0.17.0",
    "0.18.1": "0.18.0", "0.19.1": "0.19.0", "0.20.2": "0.20.1", "0.22.1": "0.22.0",
    "0.25.1": "0.25.0", "0.27.1": "0.27.0",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one release does; the defaults are those of the oldest, 0.2.4.

    Attributes:
        version: the release these rules are used for.
        v0_for: starts that the V0 engine plans: "all", or the reasons why one falls back to it
            (see `v0`).
        gpu_memory_utilization: default share of the GPU.
        batch_class: which rule settles max_num_batched_tokens and max_num_seqs (see `gpus`).
        fit_check: what the start-up check holds against memory. V0: `one_block`; that the
            `pool_tokens` reach the length; the same per stage, `pool_tokens_by_stage`. V1: the
            bytes of all `layers`; the blocks of the `first_group_of_model`, or of the stage's
            `first_group`; those of all `groups`.
        null_block, reserves_null_block: one block of the pool serves no request; the check plans
            without it.
        override_is_checked: --num-gpu-blocks-override replaces the memory in the check too.
        auto_length: --max-model-len -1 is an order to fit the length to the memory.
        hybrid_groups: layers of several kinds get groups of their own; before, windows were stored
            like full attention and other mixtures refused.
        groups_by_stage: each pipeline stage groups its own layers; later the whole model once.
        deals_layers: a kind's layers are dealt to its groups in turn; before, cut in order.
        mixed_pages: full layers of unequal pages share one group.
        projects_mixed: such a group is cut to the stage before its page is counted.
        close_bucket_ratio: groups take the largest bucket's width when it is below this times the
            smallest's; None: always the smallest bucket's.
        unifies_pages, pads_pages: unequal pages are brought to one size by larger blocks; pages
            that do not divide the largest are padded.
        chunked_groups: chunked attention keeps its own groups by default.
        in_flight_batches: windows are charged for every batch that may be in flight, not for one.
        runner_v2_for: models whose runner is V2 by default: none, `listed` or all.
        capacity: how the log line counts tokens: `pool` (blocks x size), `groups` (blocks // groups
            x size), `concurrency` (int(concurrency x length)).
        async_scheduling: default of --async-scheduling.
        prefix_caching: prefixes are cached by default; of_hybrids: those of hybrid models too.
        state_caching: how states are kept with prefix caching: `forbidden`, `off` (switched off),
            `marked` (per block for marked classes, off for the rest), `by_class` (the same, align
            for the rest) or `align`.
        drafts_align: marked classes are kept in `align` when there is speculative decoding.
        checkpoint_kinds: states whose kernels checkpoint inside a prefill and take a block more.
        states_limit_sequences: with full CUDA graphs max_num_seqs must not exceed the blocks.
        latent_pool: how DeepSeek V4's latents and windows share blocks; see `latent_pool`.
        latents: MLA keeps latents; before, heads padded to 256.
        hybrid_latent_alignment: fewest tokens of a block of a hybrid with latents.
        block_choice: who settles the block size: the platform's `forced` sizes, or the `backend`.
        latent_blocks: which sizes are forced on MLA (see `forced`).
        chunked_specs: chunked attention is told apart from full attention.
        long_rope_starts_short: LongRoPE models start at their original length by default.
        native_caches: classes that do not hand --kv-cache-dtype to their attention keep 16 bit.
        remainder_to_last: the last pipeline stage takes the layers that do not divide.
        latent_fp8_from_ada: Triton's MLA kernel reads fp8 only from compute capability 8.9 on.
        packed_latent_by_name: DeepSeek V4's packed cache has to be asked for by name (fp8).
        composite_backends: image prefixes have backends made of two (TRITON_FLASH_ATTN, ...).
        wide_fp8_blocks: FlashAttention 4 takes blocks of 64 for fp8 heads of 512 on Hopper.
        alibi_refuses_fp8: models with ALiBi are held against FlashAttention 2, which reads no fp8.
        sm100_latent_fp8: sparse latents of GLM become fp8 on SM100 by themselves.
        multimodal_floor: a step holds the largest image or video of models that see it whole.
        one_tensor: the pool is one tensor; before, one per layer.
        stage_pools: pools of the stages keep their own size although fewer blocks are used.
    """

    version: str = "0.2.4"
    v0_for: tuple[str, ...] = ("all",)
    gpu_memory_utilization: float = 0.9
    batch_class: str = "v0"
    fit_check: str = "one_block"
    null_block: bool = False
    reserves_null_block: bool = False
    override_is_checked: bool = False
    auto_length: bool = False
    hybrid_groups: bool = False
    groups_by_stage: bool = True
    deals_layers: bool = False
    mixed_pages: bool = False
    projects_mixed: bool = False
    close_bucket_ratio: float | None = None
    unifies_pages: bool = False
    pads_pages: bool = False
    chunked_specs: bool = False
    chunked_groups: bool = False
    in_flight_batches: bool = False
    runner_v2_for: str = "none"
    capacity: str = "pool"
    async_scheduling: bool = False
    prefix_caching: bool = False
    prefix_caching_of_hybrids: bool = False
    state_caching: str = "forbidden"
    drafts_align: bool = False
    checkpoint_kinds: tuple[str, ...] = ()
    states_limit_sequences: bool = False
    latent_pool: str = "packed"
    latents: bool = False
    hybrid_latent_alignment: int = 64
    block_choice: str = "forced"
    latent_blocks: str = ""
    long_rope_starts_short: bool = False
    native_caches: bool = False
    remainder_to_last: bool = True
    latent_fp8_from_ada: bool = False
    packed_latent_by_name: bool = False
    composite_backends: bool = False
    wide_fp8_blocks: bool = False
    alibi_refuses_fp8: bool = False
    sm100_latent_fp8: bool = False
    multimodal_floor: bool = False
    one_tensor: bool = False
    stage_pools: bool = False

    @property
    def is_v0(self) -> bool:
        """Whether V0 plans."""
        return self.v0_for == ("all",)

    def of_v0(self) -> Rules:
        """The rules of a start that this release leaves to its V0 engine."""
        check = self.fit_check if "all" in self.v0_for else "pool_tokens_by_stage"
        return replace(
            self, v0_for=("all",), fit_check=check, batch_class="v0", null_block=False,
            hybrid_groups=False, groups_by_stage=False, capacity="pool", prefix_caching=False,
            state_caching="forbidden", stage_pools=False, override_is_checked=True,
        )  # fmt: skip


def _row(since: str, how: str, sentence: str, source: str, **rules: Any) -> Change:
    return Change(since=since, sentence=sentence, source=source, how=how, rules=rules)


CHANGES: tuple[Change, ...] = (
    _row("0.4.0", READ, "starts only if the pool holds one request of the longest length",
         "worker/worker.py raise_if_cache_size_invalid", fit_check="pool_tokens"),
    _row("0.7.1", READ, "stores DeepSeek's latents; before, every head padded to 256",
         "config.py use_mla, worker/cache_engine.py", latents=True),
    _row("0.8.0", DRIVEN, "V1 by default; pipelines, pooling, states, encoder-decoders and caches"
         " that FlashAttention 3 does not read stay on V0", "engine/arg_utils.py, envs.py",
         v0_for=("pipeline", "pooling", "states", "encoder_decoder", "cache_format", "old_gpu"),
         batch_class="hopper", remainder_to_last=False,
         fit_check="layers", prefix_caching=True, latent_blocks="flashmla",
         stage_pools=True),
    _row("0.8.3", READ, "one block of the pool serves no request", "v1/core/block_pool.py",
         null_block=True),
    _row("0.8.4", DRIVEN, "GPUs of 70 GiB take the large defaults of batched tokens",
         "engine/arg_utils.py", batch_class="large"),
    _row("0.9.0", DRIVEN, "A100s take the small defaults of batched tokens",
         "engine/arg_utils.py", batch_class="no_a100"),
    _row("0.9.1", READ, "layers of several kinds get groups of their own; the log line counts"
         " tokens by groups", "v1/core/kv_cache_utils.py", hybrid_groups=True, capacity="groups"),
    _row("0.9.2", DRIVEN, "pipelines run on V1", "engine/arg_utils.py",
         v0_for=("states", "encoder_decoder", "encoder_only", "cache_format", "old_gpu")),
    _row("0.10.0", READ, "states run on V1, without cached prefixes; chunked attention is told from"
         " full", "engine/arg_utils.py, model_executor/models/config.py, v1/kv_cache_interface.py",
         state_caching="off", chunked_specs=True,
         v0_for=("encoder_decoder", "cache_format", "old_gpu")),
    _row("0.10.1", READ, "blocks of latents hold 128 tokens on SM100", "platforms/cuda.py",
         latent_blocks="cutlass"),
    _row("0.11.0", DRIVEN, "V0 is gone; the whole model is grouped once, its layers dealt in turn;"
         " full layers of unequal pages share a group", "v1/core/kv_cache_utils.py", v0_for=(),
         groups_by_stage=False, deals_layers=True, mixed_pages=True),
    _row("0.11.1", DRIVEN, "states of marked classes are cached per block; larger stages' pools are"
         " cut to the smallest", "model_executor/models/config.py, v1/core/kv_cache_utils.py",
         state_caching="marked", stage_pools=False, latent_blocks="multiples",
         long_rope_starts_short=True, native_caches=True),
    _row("0.12.0", DRIVEN, "unequal pages are brought to one size; groups take the wider bucket"
         " when it is below 1.25 x the narrower", "v1/core/kv_cache_utils.py", unifies_pages=True,
         close_bucket_ratio=1.25),
    _row("0.14.0", DRIVEN, "checks the first group of the whole model; fits the length to memory"
         " for -1; chunked attention keeps its groups; schedules asynchronously",
         "v1/core/kv_cache_utils.py, envs.py, config/vllm.py", fit_check="first_group_of_model",
         auto_length=True, chunked_groups=True, async_scheduling=True),
    _row("0.15.0", DRIVEN, "states of unmarked classes are cached at block boundaries (align);"
         " latents take FlashInfer's blocks of 64 on SM100",
         "model_executor/models/config.py, platforms/cuda.py", state_caching="by_class",
         latent_blocks="flashinfer"),
    _row("0.17.0", DRIVEN, "checks the first group of each stage; unequal pages of a group are"
         " counted by stage", "v1/core/kv_cache_utils.py", fit_check="first_group",
         projects_mixed=True),
    _row("0.18.0", DRIVEN, "groups take the wider bucket below 1.5 x the narrower; the backend"
         " settles the block size", "v1/core/kv_cache_utils.py, platforms/interface.py",
         close_bucket_ratio=1.5, block_choice="backend"),
    _row("0.19.0", DRIVEN, "checks all groups of each stage", "v1/core/kv_cache_utils.py",
         fit_check="groups"),
    _row("0.20.0", DRIVEN, "takes 0.92 of the GPU; the pool is one tensor; max_num_seqs must not"
         " exceed the blocks of a model with states", "config/cache.py, config/compilation.py",
         gpu_memory_utilization=0.92, one_tensor=True, states_limit_sequences=True,
         drafts_align=True, latent_pool="tuples", hybrid_latent_alignment=1,
         packed_latent_by_name=True),
    _row("0.20.1", READ, "the log line's tokens are int(concurrency x length); an override of the"
         " blocks enters the check", "v1/core/kv_cache_utils.py", capacity="concurrency",
         override_is_checked=True),
    _row("0.22.0", READ, "a step holds the largest image or video of models that see it whole",
         "engine/arg_utils.py", multimodal_floor=True),
    _row("0.23.0", DRIVEN, "DeepSeek V4's pages lie in slots", "v1/core/kv_cache_utils.py",
         latent_pool="slots"),
    _row("0.24.0", DRIVEN, "pages that do not divide the largest are padded",
         "v1/core/kv_cache_utils.py", pads_pages=True),
    _row("0.26.0", DRIVEN, "windows are charged for every batch in flight", "config/vllm.py",
         in_flight_batches=True, runner_v2_for="listed"),
    _row("0.27.0", DRIVEN, "DeepSeek V4's blocks are as wide as the widest group; blocks of a"
         " hybrid with latents hold 128 tokens at least", "v1/core/kv_cache_utils.py",
         latent_pool="widest", hybrid_latent_alignment=128),
    _row("0.27.0", READ, "Triton's MLA kernel reads fp8 from compute capability 8.9 on; models with"
         " ALiBi read no fp8 cache", "v1/attention/backends/mla/triton_mla.py,"
         " v1/attention/backends/flash_attn.py", latent_fp8_from_ada=True, alibi_refuses_fp8=True),
    _row("0.28.0", DRIVEN, "hybrids cache prefixes by default, states at block boundaries (align)"
         " for all classes; GPUs of 160 GiB batch 16,384 tokens",
         "engine/arg_utils.py, model_executor/models/config.py", state_caching="align",
         prefix_caching_of_hybrids=True, batch_class="huge"),
    _row("0.29.0", DRIVEN, "the check plans without the null block; every model has runner V2",
         "v1/core/kv_cache_planning.py, config/vllm.py", reserves_null_block=True,
         runner_v2_for="all", latent_pool="packed",
         checkpoint_kinds=("kimi_delta_attention",)),
    _row("0.30.0", DRIVEN, "DeepSeek V4 takes its packed cache by itself; image prefixes have"
         " backends made of two", "models/deepseek_v4/attention.py,"
         " v1/attention/backends/registry.py", packed_latent_by_name=False,
         composite_backends=True),
    _row("0.31.0", READ, "FlashAttention 4 takes blocks of 64 for fp8 heads of 512",
         "v1/attention/backends/flash_attn.py", wide_fp8_blocks=True),
    _row("0.32.0", DRIVEN, "GLM's sparse latents become fp8 on SM100",
         "model_executor/models/config.py", sm100_latent_fp8=True),
    _row("0.32.0", DRIVEN, "states of Mamba 2 take a block more for checkpoints inside a prefill",
         "v1/kv_cache_interface.py", checkpoint_kinds=("mamba2", "kimi_delta_attention")),
    _row("0.33.0", DRIVEN, "so do gated delta nets", "v1/kv_cache_interface.py",
         checkpoint_kinds=("mamba2", "gated_delta_net", "kimi_delta_attention")),
)  # fmt: skip

HISTORY = History(
    engine="vllm",
    oldest=Rules(),
    changes=CHANGES,
    driven=tuple(reversed(DRIVEN_RELEASES)),
    read=READ_RELEASES,
    same=SAME_PLANNING,
)
VERSIONS = HISTORY.versions

# The newest release whose default engine was V0; later ones fell back to it for what V1 lacked.
NEWEST_V0 = "0.7.3"


def rules_of(version: str) -> tuple[Rules, str | None]:
    """The rules of `version`, and a sentence when no release of that number was looked at.

    Raises:
        UsageError: not a version.
    """
    claim = claim_of(version)
    return HISTORY.rules_of(_line(version)), None if claim.known else claim.sentence


def claim_of(version: str) -> Claim:
    """What the rules of a version rest on.

    Raises:
        UsageError: not a version.
    """
    line = _line(version)
    claim = HISTORY.claim(line)
    if line == version:
        return claim
    sentence = (
        f"vllm {version} was built behind {line}, from the line of the next release; "
        f"rules of {claim.release} were used"
    )
    return Claim(how=NEAREST, release=claim.release, sentence=sentence)


def cited(origin: str, rules: Rules) -> str:
    """Where something stands, by the files that the release has.

    The configuration was one file up to 0.10.0, and in part another one before 0.11.0.
    """
    version = HISTORY.number(rules.version)
    if version < HISTORY.number("0.10.1"):
        return re.sub(r"^config/\w+\.py", "config.py", origin)
    if version < HISTORY.number("0.11.0"):
        return re.sub(r"^config/(?!cache|parallel|scheduler)\w+\.py", "config/__init__.py", origin)
    return origin


def _line(version: str) -> str:
    """The release behind which a build was made.

    A pre-release of a patch (0.20.1rc1.dev3) is a build of the main line after 0.20.0.
    """
    found = re.match(
        r"v?(\d+)\.(\d+)\.([1-9]\d*)[._-]?(?:a|b|c|rc|alpha|beta|dev)",
        version.strip(),
        re.IGNORECASE,
    )
    if found is None or as_version(version) is None:
        return version
    return f"{found[1]}.{found[2]}.{int(found[3]) - 1}"
