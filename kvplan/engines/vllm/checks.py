"""What vLLM refuses before it builds a layer: lengths, heads, formats and parallelism.

The order is vLLM's, because only the first refusal is ever seen.
Source: vllm 0.33.0, config/model.py, config/scheduler.py, config/vllm.py, config/speculative.py.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.parallel import stage_sizes
from kvplan.engines.vllm.options.settings import Settings
from kvplan.engines.vllm.refusal import Refused
from kvplan.spec.model import ModelSpec


def check_architecture(spec: ModelSpec, family: Family, settings: Settings) -> None:
    """An architecture that later releases dropped, or that none ever had.

    Raises:
        Refused: this version does not have it.
    """
    if family.missing:
        raise Refused(
            "ValueError",
            f"Model architectures ['{spec.architecture}'] are not supported for now.",
            "neither vllm nor its fallback to transformers has a class for it",
        )
    if family.removed is None or _older(settings.rules.version, family.removed):
        return
    raise Refused(
        "ValueError",
        f"Model architecture {spec.architecture} was supported in vLLM until "
        f"v{family.removed}, and is not supported anymore. "
        "Please use an older version of vLLM if you want to "
        "use this model architecture.",
    )


def _older(version: str, last: str) -> bool:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    return numbers(version) <= numbers(last)


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
            "ValueError",
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({length}). "
            "This effectively limits the maximum sequence length to "
            "max_num_batched_tokens and makes vLLM reject longer sequences. "
            "Please increase max_num_batched_tokens or decrease max_model_len.",
        )
    if settings.max_seqs is not None and tokens < settings.max_seqs:
        raise Refused(
            "ValueError",
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to "
            f"max_num_seqs ({settings.max_seqs}).",
        )


def check_state_blocks(settings: Settings, length: int, *, caches_prefixes: bool) -> None:
    """A block size of states means something only where prefixes are cached.

    Raises:
        Refused: it is given, and they are not.
    """
    if settings.state_block_size in (None, length) or caches_prefixes:
        return
    raise Refused("ValueError", "--mamba-block-size can only be set with --enable-prefix-caching")


def check_parallelism(model: Model) -> None:
    """Heads must divide among ranks, and decode context parallelism needs spare ranks.

    Raises:
        Refused: they do not.
    """
    settings = model.settings
    heads, kv_heads, tp, dcp = model.heads, model.kv_heads, settings.tp, settings.dcp
    if dcp > 1 and tp % dcp:
        raise Refused("ValueError", f"tp_size={tp} must be divisible by dcp_size={dcp}.")
    if heads % tp:
        raise Refused(
            "ValueError",
            f"Total number of attention heads ({heads}) must be divisible by tensor "
            f"parallel size ({tp}).",
        )
    if settings.pp > 1 and not model.family.has_stages:
        raise Refused(
            "NotImplementedError",
            "Pipeline parallelism is not supported for this model. "
            "Supported models implement the `SupportsPP` interface.",
        )
    if dcp == 1 or model.mla or not kv_heads:
        return
    if tp <= kv_heads:
        raise Refused(
            "ValueError",
            "Decode context parallelism for GQA/MQA requires "
            f"`--tensor-parallel-size` ({tp}) to be greater than the model's total number of "
            f"KV heads ({kv_heads}). Increase `--tensor-parallel-size` "
            "or set `--decode-context-parallel-size 1`.",
        )
    if dcp > tp // kv_heads:
        raise Refused(
            "ValueError",
            f"`--decode-context-parallel-size` ({dcp}) exceeds the maximum "
            f"supported value ({tp // kv_heads}) for `--tensor-parallel-size` ({tp}) and "
            f"{kv_heads} model KV heads.",
        )
    if heads // kv_heads % dcp:
        raise Refused(
            "ValueError",
            f"The model's number of query heads per KV head ({heads // kv_heads}) must be "
            f"divisible by `--decode-context-parallel-size` ({dcp}) for GQA/MQA.",
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
                "ValueError",
                f"Specified KV sharing target layer for {_layer_name(spec, layer)} is not valid: "
                f"target layer {_layer_name(spec, source)} is not a valid Attention layer in the "
                "model.",
                f"layer {layer} reads the cache of layer {source}, which is on another stage",
            )


def _layer_name(spec: ModelSpec, layer: int) -> str:
    """vLLM's name of a layer's attention; the text model of a multimodal one has a prefix."""
    outer = "language_model." if "ForConditionalGeneration" in (spec.architecture or "") else ""
    return f"{outer}model.layers.{layer}.self_attn.attn"


def check_formats(model: Model) -> None:
    """A 16-bit cache must be in the model's format; nvfp4 has no latent layout.

    Raises:
        Refused: it is not, or the model has latents.
    """
    name = model.cache.name
    if name in ("float16", "bfloat16") and name != model.dtype:
        raise Refused(
            "ValueError",
            f'kv_cache_dtype="{name}" is incompatible with dtype="{model.dtype}". Please set '
            f"`--kv-cache-dtype` to `auto` or `{model.dtype}`.",
        )
    if model.family.packed_latent and not name.startswith("fp8"):
        raise Refused(
            "ValueError",
            f"DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {name}. Please set "
            "`--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache.",
        )
    if name.startswith("nvfp4") and name != "nvfp4_ds_mla" and model.mla:
        raise Refused(
            "ValueError",
            "nvfp4 KV cache is not supported with MLA (Multi-head Latent "
            "Attention) backends. Please use a different --kv-cache-dtype "
            "(e.g., 'fp8', 'auto', or 'nvfp4_ds_mla' with a sparse MLA "
            "backend) for MLA models such as DeepSeek.",
        )


def check_draft(spec: ModelSpec, draft: ModelSpec) -> None:
    """A draft model must speak the target's vocabulary.

    Raises:
        Refused: it has another.
    """
    if spec.vocab_size and draft.vocab_size and spec.vocab_size != draft.vocab_size:
        raise Refused(
            "ValueError",
            "Target and draft model should have the same vocabulary size. "
            f"Target model vocab_size={spec.vocab_size}. "
            f"Draft model vocab_size={draft.vocab_size}. "
            "Using models with different tokenizers can cause out-of-bounds errors during "
            "speculative decoding.",
        )
