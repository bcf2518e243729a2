"""What vLLM refuses before it builds a layer: lengths, heads, formats and parallelism.

The order is vLLM's, because only the first refusal is ever seen.
Source: vllm 0.33.0, config/model.py, config/scheduler.py, config/vllm.py, config/speculative.py.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.kit.versions import as_version
from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.parallel import stage_sizes
from kvplan.engines.vllm.options.settings import Settings
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState


def check_architecture(spec: ModelSpec, family: Family, settings: Settings) -> None:
    """An architecture that later releases dropped, or that none ever had.

    Raises:
        Refused: this version does not have it.
    """
    if family.missing:
        raise Refused(
            "unsupported-architecture",
            "ValidationError",
            f"vllm has no class for {spec.architecture}, and its fallback to transformers has none "
            "either",
            architecture=spec.architecture,
        )
    if family.removed is None or _older(settings.rules.version, family.removed):
        return
    raise Refused(
        "architecture-removed",
        "ValidationError",
        f"vllm {family.removed} was the last release with {spec.architecture}; run that one or an "
        "older one",
        architecture=spec.architecture,
        last_version=family.removed,
    )


def _divisors(heads: int) -> str:
    """Tensor parallel sizes to try instead: the divisors that machines come in."""
    return ", ".join(str(size) for size in range(1, 65) if heads % size == 0)


def _older(version: str, last: str) -> bool:
    first, second = as_version(version), as_version(last)
    return first is not None and second is not None and first <= second


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
    if settings.pp > 1 and not model.family.has_stages:
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
    sizes = stage_sizes(len(spec.layers), settings.pp, settings.partition)
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
