"""What vLLM refuses before it builds a layer: lengths, heads, formats and parallelism.

The order is vLLM's, because only the first refusal is ever seen.
Source: vllm 0.33.0, config/model.py, config/scheduler.py, config/vllm.py, config/speculative.py.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.classes import (
    BY_PLUGIN,
    PLUGIN_SINCE,
    PLUGIN_UNTIL,
    class_named,
)
from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.facts.formats import CACHE_SINCE, WEIGHTS_SINCE, WEIGHTS_UNTIL
from kvplan.engines.vllm.facts.versions import HISTORY
from kvplan.engines.vllm.failures import check_failures
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.parallel import stage_sizes
from kvplan.engines.vllm.options.settings import Settings
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState


def check_architecture(spec: ModelSpec, family: Family, settings: Settings) -> None:
    """A model class that the release does not have yet, no more, or never had.

    Raises:
        Refused: this version does not have it, or cannot read its weights or config.
    """
    version, name = settings.rules.version, spec.architecture
    _check_weights(spec, settings)
    if family.missing:
        raise _without_class(name, f"no release of vllm has a class for {name}, and its fallback"
                             " to transformers has none either")  # fmt: skip
    row = class_named(name)
    if name is None or row is None or row.is_in(version):
        check_failures(spec, settings)
        return
    if name in BY_PLUGIN and HISTORY.number(PLUGIN_SINCE) <= HISTORY.number(version):
        if HISTORY.number(version) > HISTORY.number(PLUGIN_UNTIL):
            raise _without_class(name, f"vllm {version} has no class for {name}")
        raise Refused(
            "architecture-moved-to-plugin",
            "ValidationError",
            f"vllm {version} leaves {name} to a plugin (bart-plugin); 0.10.2 was the last release "
            "that served it itself",
            architecture=name,
        )
    if row.is_past(version):
        raise Refused(
            "architecture-removed",
            "ValidationError",
            f"vllm {row.last} was the last release with {name}; run that one or an older one",
            architecture=name,
            last_version=row.last,
        )
    first = row.first if row.first != "-" else row.lent
    raise _without_class(name, f"vllm {version} has no class for {name}; {first} is the first"
                         " release that does")  # fmt: skip


def _without_class(name: str | None, message: str) -> Refused:
    return Refused("unsupported-architecture", "ValidationError", message, architecture=name)


def _check_weights(spec: ModelSpec, settings: Settings) -> None:
    """A weight format that came later; before 0.8 the class is asked for first."""
    method = (spec.quant_method or "").lower()
    since, version = WEIGHTS_SINCE.get(method), settings.rules.version
    until = WEIGHTS_UNTIL.get(method)
    if until is not None and HISTORY.number(version) > HISTORY.number(until):
        raise Refused(
            "quantization-unsupported",
            "ValidationError",
            f"vllm {version} does not run {method} weights any more",
            quant_method=method,
        )
    later = since is not None and HISTORY.number(since) > HISTORY.number(version)
    if not later or HISTORY.number(version) < HISTORY.number("0.8.0"):
        return
    raise Refused(
        "quantization-unsupported",
        "ValidationError",
        f"vllm {version} does not read {method} weights; {since} is the first release that does",
        quant_method=method,
    )


def _divisors(heads: int) -> str:
    """Tensor parallel sizes to try instead: the divisors that machines come in."""
    return ", ".join(str(size) for size in range(1, 65) if heads % size == 0)


def check_batch(settings: Settings, length: int, tokens: int, *, chunked_prefill: bool) -> None:
    """A step must hold a token of every sequence, and a whole prompt that may not be cut.

    Args:
        settings: the options.
        length: max_model_len.
        tokens: max_num_batched_tokens.
        chunked_prefill: whether the model can have its prompts cut at all.

    Raises:
        Refused: it does not.
    """
    chunked = chunked_prefill and settings.chunked_prefill is not False
    if tokens < length and not chunked:
        raise Refused(
            "batched-tokens-below-max-model-len",
            "ValidationError",
            f"prompts are not cut here, so a step of {tokens:,} tokens cannot hold one of "
            f"{length:,}; raise --max-num-batched-tokens to {length} or lower --max-model-len",
            max_num_batched_tokens=tokens,
            max_model_len=length,
        )
    if settings.max_seqs is not None and tokens < settings.max_seqs:
        raise Refused(
            "batched-tokens-below-max-num-seqs",
            "ValidationError",
            f"a step of {tokens:,} tokens has none for some of {settings.max_seqs:,} sequences; "
            f"raise --max-num-batched-tokens to {settings.max_seqs} or lower --max-num-seqs",
            max_num_batched_tokens=tokens,
            max_num_seqs=settings.max_seqs,
        )


def check_state_blocks(settings: Settings, length: int, *, caches_prefixes: bool) -> None:
    """A block size of states means something only where prefixes are cached.

    Raises:
        Refused: it is given, and they are not.
    """
    if settings.state_block_size in (None, length) or caches_prefixes:
        return
    raise Refused(
        "mamba-block-size-without-prefix-caching",
        "ValidationError",
        f"--mamba-block-size {settings.state_block_size} without prefix caching; leave it out, or "
        "add --enable-prefix-caching",
        mamba_block_size=settings.state_block_size,
    )


def check_release_format(settings: Settings) -> None:
    """A cache format that came with a later release.

    Raises:
        Refused: this release does not have it.
    """
    name = settings.cache_dtype.strip().lower()
    since, version = CACHE_SINCE.get(name), settings.rules.version
    if since is None or HISTORY.number(since) <= HISTORY.number(version):
        return
    raise Refused(
        "kv-cache-dtype-unsupported",
        "ValidationError",
        f"vllm {version} has no --kv-cache-dtype {name}; {since} is the first release that does",
        kv_cache_dtype=name,
    )


def check_old_latent_format(model: Model) -> None:
    """Quantised latents before the backends were asked: Hopper and SM100 only, and not at first.

    Raises:
        Refused: no kernel of the release reads them.
    """
    settings = model.settings
    rules, gpu = settings.rules, settings.gpu
    if rules.block_choice != "forced" or not model.cache.is_quantized:
        return
    message = f"vllm {rules.version} has no kernel for latents in {model.cache.name} on {gpu.name}"
    if model.mla and rules.latent_blocks == "flashmla":
        raise Refused("kv-cache-dtype-unsupported", "NotImplementedError", message)
    if rules.is_v0:
        return
    if (
        not model.mla
        and gpu.major == 10
        and rules.latent_blocks == "cutlass"
        and (rules.groups_by_stage)
    ):
        raise Refused(
            "kv-cache-dtype-unsupported",
            "NotImplementedError",
            f"vllm {rules.version} has no kernel for a {model.cache.name} cache on {gpu.name} by "
            "itself; 0.11.0 is the first release that does",
        )
    if model.mla and not model.sparse and gpu.major not in (9, 10):
        if rules.latent_blocks == "cutlass":
            raise Refused("kv-cache-dtype-unsupported", "NotImplementedError", message)
        raise Refused("no-attention-backend", "ValueError", message)


def check_old_heads(model: Model) -> None:
    """The first releases of V1 had FlashAttention alone, for some sizes of heads.

    Raises:
        Refused: the model's heads have another size.
    """
    rules, size = model.settings.rules, model.head_size
    few = not rules.is_v0 and HISTORY.number(rules.version) < HISTORY.number("0.9.1")
    if few and not model.mla and size not in (0, 32, 64, 96, 128, 160, 192, 224, 256):
        raise Refused(
            "head-size-unsupported",
            "ValueError",
            f"vllm {rules.version} has no kernel for heads of {size} elements",
            head_size=size,
        )


def check_old_blocks(settings: Settings) -> None:
    """Before 0.7 kernels took blocks of at most 32 tokens.

    Raises:
        Refused: --block-size is larger.
    """
    size, version = settings.block_size, settings.rules.version
    if size is not None and size > 32 and HISTORY.number(version) < HISTORY.number("0.7.0"):
        raise Refused(
            "block-size-unsupported",
            "ValueError",
            f"vllm {version} takes blocks of at most 32 tokens; give --block-size 32 or less",
            block_size=size,
        )


def check_auto_length(settings: Settings, asked: int | None) -> None:
    """Releases before 0.14 take -1 for a length and end in nonsense or a division by zero.

    Raises:
        Refused: -1 is asked of one of them.
    """
    if asked == -1 and not settings.rules.auto_length:
        raise Refused(
            "auto-fit-not-in-release",
            "ValidationError",
            f"vllm {settings.rules.version} does not fit --max-model-len to the memory; give a "
            "length, or run 0.14.0 or newer",
        )


def check_arguments(settings: Settings) -> None:
    """Options that came with a later release.

    Raises:
        Refused: one of them is given.
    """
    version = settings.rules.version
    for name, since in _ARGUMENTS_SINCE.items():
        if name in settings.given and HISTORY.number(version) < HISTORY.number(since):
            flag = "--" + name.replace("_", "-")
            raise Refused(
                "argument-not-in-release",
                "TypeError",
                f"vllm {version} has no {flag}; {since} is the first release that does",
                argument=flag,
            )


# Options that change the plan, and the first release with each.
_ARGUMENTS_SINCE = {
    "disable_hybrid_kv_cache_manager": "0.9.0", "kv_cache_memory_bytes": "0.10.2",
    "async_scheduling": "0.10.0", "decode_context_parallel_size": "0.10.2",
    "mamba_cache_dtype": "0.10.1", "mamba_ssm_cache_dtype": "0.10.1", "mamba_block_size": "0.11.1",
    "mamba_cache_mode": "0.15.0", "kv_cache_dtype_skip_layers": "0.19.0",
    "language_model_only": "0.16.0",
}  # fmt: skip


def check_state_caching(model: Model) -> None:
    """Releases whose states cannot be beside cached prefixes refuse the flag.

    Raises:
        Refused: it is given, and the model has states.
    """
    settings = model.settings
    recurrent = any(isinstance(state, RecurrentState) for state in model.spec.states())
    if settings.prefix_caching and recurrent and settings.rules.state_caching == "forbidden":
        raise Refused(
            "mamba-prefix-caching",
            "AssertionError",
            f"vllm {settings.rules.version} cannot cache prefixes of a model with recurrent "
            "states; leave out --enable-prefix-caching",
        )


def check_parallelism(model: Model) -> None:
    """Heads must divide among ranks, and decode context parallelism needs spare ranks.

    Raises:
        Refused: they do not.
    """
    settings = model.settings
    heads, kv_heads, tp, dcp = model.heads, model.kv_heads, settings.tp, settings.dcp
    if dcp > 1 and tp % dcp:
        raise Refused(
            "dcp-not-possible",
            "ValidationError",
            f"tensor parallel size {tp} is not a multiple of decode context parallel size {dcp}",
            tp=tp,
            dcp=dcp,
        )
    if heads % tp:
        raise Refused(
            "heads-not-divisible",
            "ValidationError",
            f"{heads} attention heads do not divide among {tp} tensor parallel ranks; sizes that "
            f"divide them: {_divisors(heads)}",
            heads=heads,
            tp=tp,
        )
    row = class_named(model.spec.architecture)
    staged = row is None or row.is_staged_in(settings.rules.version)
    if settings.pp > 1 and not (staged and model.family.has_stages):
        raise Refused(
            "pipeline-unsupported",
            "NotImplementedError",
            f"vllm cannot split {model.spec.architecture or 'this model'} into {settings.pp} "
            "pipeline stages; use tensor parallelism alone",
            pp=settings.pp,
        )
    if dcp == 1 or model.mla or not kv_heads:
        return
    if tp <= kv_heads:
        raise Refused(
            "dcp-not-possible",
            "ValidationError",
            f"decode context parallelism needs more ranks than KV heads, and {tp} ranks do not "
            f"exceed {kv_heads}; raise --tensor-parallel-size or leave out "
            "--decode-context-parallel-size",
            tp=tp,
            dcp=dcp,
            kv_heads=kv_heads,
        )
    if dcp > tp // kv_heads:
        raise Refused(
            "dcp-not-possible",
            "ValidationError",
            f"{tp} ranks hold {tp // kv_heads} copies of {kv_heads} KV heads, too few for "
            f"--decode-context-parallel-size {dcp}",
            tp=tp,
            dcp=dcp,
            kv_heads=kv_heads,
            largest_dcp=tp // kv_heads,
        )
    if heads // kv_heads % dcp:
        raise Refused(
            "dcp-not-possible",
            "ValidationError",
            f"{heads // kv_heads} query heads per KV head do not divide by "
            f"--decode-context-parallel-size {dcp}",
            dcp=dcp,
            heads=heads,
            kv_heads=kv_heads,
        )


def check_shared(model: Model) -> None:
    """A layer that reads another's cache must be on the same pipeline stage.

    Raises:
        Refused: it is not.
    """
    spec, settings = model.spec, model.settings
    if settings.pp == 1:
        return
    sizes = stage_sizes(
        len(spec.layers),
        settings.pp,
        settings.partition,
        remainder_to_last=settings.rules.remainder_to_last,
    )
    starts = list(accumulate(sizes, initial=0))
    for layer, source in spec.shared_sources().items():
        start = starts[bisect_right(starts, layer) - 1]
        if source < start and layer < len(spec.layers):
            raise Refused(
                "kv-sharing-target",
                "ValueError",
                f"layer {layer} reads the cache of layer {source}, which is on another pipeline "
                "stage; use fewer stages",
                layer=layer,
                source=source,
                pp=settings.pp,
            )


def check_formats(model: Model) -> None:
    """A 16-bit cache must be in the model's format; nvfp4 has no latent layout.

    Raises:
        Refused: it is not, or the model has latents.
    """
    name = model.cache.name
    if name in ("float16", "bfloat16") and name != model.dtype:
        raise Refused(
            "format-not-for-model",
            "ValidationError",
            f"the model runs in {model.dtype}, so its cache cannot be in {name}; give "
            f"--kv-cache-dtype auto or {model.dtype}",
            kv_cache_dtype=name,
            dtype=model.dtype,
        )
    settings, rules = model.settings, model.settings.rules
    by_itself = settings.cache_dtype.strip().lower() == "auto"
    if model.family.packed_latent and rules.packed_latent_by_name and by_itself:
        raise Refused(
            "kv-cache-dtype-required",
            "AssertionError",
            f"vllm {rules.version} keeps this model's cache in fp8 alone and wants to be told so: "
            "give --kv-cache-dtype fp8",
        )
    if (
        model.family.alibi
        and model.cache.is_quantized
        and settings.gpu.major == 9
        and (rules.alibi_refuses_fp8)
    ):
        raise Refused(
            "format-not-on-device",
            "NotImplementedError",
            f"ALiBi takes FlashAttention 2, which reads no {name} cache; leave it in 16 bit",
            kv_cache_dtype=name,
        )
    if model.family.packed_latent and not name.startswith("fp8"):
        raise Refused(
            "format-not-for-model",
            "ValueError",
            f"this family packs its latents in fp8 only, not in {name}; give --kv-cache-dtype fp8",
            kv_cache_dtype=name,
        )
    if name.startswith("nvfp4") and name != "nvfp4_ds_mla" and model.mla:
        raise Refused(
            "format-not-for-model",
            "ValueError",
            f"vllm has no {name} layout for latents; give --kv-cache-dtype auto or fp8, or "
            "nvfp4_ds_mla for a sparse model",
            kv_cache_dtype=name,
        )


def check_draft(spec: ModelSpec, draft: ModelSpec) -> None:
    """A draft model must speak the target's vocabulary.

    Raises:
        Refused: it has another.
    """
    if spec.vocab_size and draft.vocab_size and spec.vocab_size != draft.vocab_size:
        raise Refused(
            "draft-vocabulary-differs",
            "ValidationError",
            f"the draft model {draft.name} has {draft.vocab_size:,} tokens in its vocabulary and "
            f"{spec.name} has {spec.vocab_size:,}; choose a draft of the same family",
            vocab_size=spec.vocab_size,
            draft_vocab_size=draft.vocab_size,
        )
