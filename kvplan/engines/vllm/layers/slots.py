"""The caches that each layer of a model registers, in vLLM's order, each with its backend.

A layer kind of the spec becomes one or more slots: an indexer before the attention it serves, a
window cache before DeepSeek V4's compressed rows, attention before a recurrent state. A slot knows
everything but the block size, which vLLM settles when it has seen all backends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.backends import latent
from kvplan.engines.vllm.backends.backend import Backend
from kvplan.engines.vllm.backends.plain import DIFFKV
from kvplan.engines.vllm.backends.query import AttentionQuery
from kvplan.engines.vllm.backends.selector import select
from kvplan.engines.vllm.facts.dtype import CacheDType
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.parallel import kv_heads_of_rank
from kvplan.engines.vllm.layers.states import StateShapes, checkpoint_rule, state_shapes
from kvplan.spec import states as kept
from kvplan.spec.recurrent import RecurrentState

COMPRESSOR = Backend(name="CompressorBackend", block_sizes=(1,))

# Roles of a slot beside plain attention.
ATTENTION, INDEX, V4_WINDOW, V4_STATE, STATE = "attention", "index", "window", "v4 state", "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One cache of one layer kind, before its block size is known.

    Attributes:
        role: attention, index, window or v4 state (DeepSeek V4), state.
        state: what the spec keeps.
        backend, query: who reads it; None for recurrent states.
        dtype: format of its elements.
        kv_heads: KV heads of this rank.
        leader: a sparse layer that owns its indexer.
        shapes: tensors of a recurrent state.
        checkpoint: (further blocks, alignment) of a recurrent state.
    """

    role: str
    state: kept.State
    dtype: CacheDType
    backend: Backend | None = None
    query: AttentionQuery | None = None
    kv_heads: int = 1
    leader: bool = False
    shapes: StateShapes | None = None
    checkpoint: tuple[int, int | None] = (0, None)


def slots_of(model: Model, states: tuple[kept.State, ...], *, skipped: bool) -> tuple[Slot, ...]:
    """The slots of one layer kind.

    Args:
        skipped: the layer is named in --kv-cache-dtype-skip-layers.

    Raises:
        Refused: vLLM would not build such a layer.
    """
    found: list[Slot] = []
    indexer = next((state for state in states if isinstance(state, kept.Indexer)), None)
    skip_windows = "sliding_window" in model.settings.skip_layers
    for state in states:
        plain = skipped or (model.family.native_cache_only and model.settings.rules.native_caches)
        plain = plain or (skip_windows and isinstance(state, kept.SlidingAttention))
        dtype = model.cache.for_model(model.dtype) if plain else model.cache
        if isinstance(state, kept.CompressedLatent):
            found += _compressed(model, state, indexer)
        elif isinstance(state, kept.LatentAttention):
            found += _latent(model, state, indexer, dtype)
        elif isinstance(state, kept.HeadState):
            found += _heads(model, state, indexer, dtype)
    found += [_recurrent(model, state) for state in states if isinstance(state, RecurrentState)]
    return tuple(found)


def _heads(
    model: Model, state: kept.HeadState, indexer: kept.Indexer | None, dtype: CacheDType
) -> list[Slot]:
    kv_heads = kv_heads_of_rank(state.kv_heads, model.settings.tp, model.family)
    query = model.query(state.head_dim, state.value_dim, dtype)
    if indexer is not None:
        # MiniMax M3: keys of the index beside the attention, both read by its own kernels.
        index = Slot(
            role=INDEX, state=indexer, dtype=model.cache.for_model(model.dtype),
            backend=latent.M3_INDEXER, query=query,
        )  # fmt: skip
        attention = Slot(
            role=ATTENTION, state=state, dtype=dtype, backend=latent.M3_SPARSE, query=query,
            kv_heads=kv_heads,
        )  # fmt: skip
        return [index, attention]
    query = replace(
        query,
        sinks=model.family.sinks,
        sliding=isinstance(state, kept.SlidingAttention),
        attention_type=("ENCODER_DECODER" if isinstance(state, kept.CrossAttention) else "DECODER"),
    )
    if isinstance(state, (kept.ChunkedAttention, kept.CrossAttention)):
        # Their wrapped backends are asked without the layer's other needs.
        query = replace(query, sinks=False, image_prefix=False)
    backend = None
    if model.settings.rules.block_choice == "backend":
        backend = DIFFKV if state.value_dim != state.head_dim else select(query)
        if backend is DIFFKV and dtype.is_quantized and query.gpu.major == 10:
            raise Refused(
                "format-not-on-device",
                "NotImplementedError",
                f"K of {state.head_dim} and V of {state.value_dim} elements fall to FlashAttention"
                f" 2 on {query.gpu.device_name}, which reads no {dtype.name} cache",
                kv_cache_dtype=dtype.name,
            )
    return [
        Slot(
            role=ATTENTION, state=state, dtype=dtype, backend=backend, query=query,
            kv_heads=kv_heads,
        )
    ]  # fmt: skip


def _latent(
    model: Model,
    state: kept.LatentAttention,
    indexer: kept.Indexer | None,
    dtype: CacheDType,
) -> list[Slot]:
    if not model.mla:
        return _heads(model, _decompressed(model, state), None, dtype)
    found = []
    size = state.kv_lora_rank + state.qk_rope_head_dim
    query = replace(
        model.query(size, 0, dtype),
        mla=True,
        sparse=model.sparse,
        image_prefix=False,
        qk_nope_head_dim=state.qk_nope_head_dim or 1,
        kv_lora_rank=state.kv_lora_rank,
        qk_rope_head_dim=state.qk_rope_head_dim,
    )
    if indexer is not None:
        found.append(
            Slot(role=INDEX, state=indexer, dtype=dtype, backend=latent.INDEXER, query=query)
        )
    backend = select(query) if model.settings.rules.block_choice == "backend" else None
    packed = dtype
    if backend is None:
        packed = old_latent_format(model, dtype)
    elif backend.name == "FLASHMLA_SPARSE" and dtype.is_quantized and dtype.name != "nvfp4_ds_mla":
        packed = CacheDType("fp8_ds_mla", "uint8", f"{backend.name} packs fp8 rows of 656 bytes")
    elif backend.name == "FLASHINFER_MLA_SPARSE_SM120" and dtype.name in (
        "auto", "fp8", "fp8_e4m3",
    ):  # fmt: skip
        packed = CacheDType("fp8_ds_mla", "uint8", f"{backend.name} packs rows of 656 bytes")
    found.append(
        Slot(
            role=ATTENTION, state=state, dtype=packed, backend=backend, query=query,
            leader=indexer is not None,
        )
    )  # fmt: skip
    return found


def old_latent_format(model: Model, dtype: CacheDType) -> CacheDType:
    """Before backends settled it: sparse attention packs its fp8 latents."""
    if model.sparse and dtype.is_quantized:
        return CacheDType("fp8_ds_mla", "uint8", "sparse attention packs fp8 rows of 656 bytes")
    return dtype


def _decompressed(model: Model, state: kept.LatentAttention) -> kept.FullAttention:
    """A latent that vLLM stores as plain heads: K of nope + rope elements, V padded to the same."""
    heads = state.heads or model.heads
    head_dim = (state.qk_nope_head_dim or 0) + state.qk_rope_head_dim
    if model.family.latent and not model.settings.rules.latents:
        head_dim = 256  # 0.6.6, config.py: a constant for DeepSeek V2 and V3
    return kept.FullAttention(kv_heads=heads, head_dim=head_dim)


def _compressed(
    model: Model, state: kept.CompressedLatent, indexer: kept.Indexer | None
) -> list[Slot]:
    query = model.query(state.head_dim, 0, model.cache)
    found = [
        Slot(role=V4_WINDOW, state=state, dtype=model.cache, backend=latent.V4_WINDOW, query=query)
    ]
    if indexer is not None:
        found += [
            Slot(role=INDEX, state=indexer, dtype=model.cache, backend=latent.V4_INDEXER,
                 query=query),
            Slot(role=V4_STATE, state=indexer, dtype=CacheDType("auto", "float32"),
                 backend=COMPRESSOR, query=query),
        ]  # fmt: skip
    if state.ratio is not None:
        found += [
            Slot(role=ATTENTION, state=state, dtype=model.cache, backend=latent.V4_LATENT,
                 query=query),
            Slot(role=V4_STATE, state=state, dtype=CacheDType("auto", "float32"),
                 backend=COMPRESSOR, query=query),
        ]  # fmt: skip
    return found


def _recurrent(model: Model, state: RecurrentState) -> Slot:
    shapes = state_shapes(state, model.settings, model.family, model.dtype)
    rule = checkpoint_rule(state, model.settings, model.family)
    dtype = CacheDType("auto", shapes.dtypes[-1])
    return Slot(role=STATE, state=state, dtype=dtype, shapes=shapes, checkpoint=rule)
