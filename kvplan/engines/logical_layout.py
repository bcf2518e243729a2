"""The logical cache as tensors: what a model must keep, one allocation per vector kind and layer.

Nothing is padded, paged or held twice, so the tensors' bytes are the logical bytes, over all ranks
together, whatever the format. Sequences come first, tokens second:

    heads        layers.0.k       (batch, tokens, kv_heads, head_dim), and v
    latent       layers.0.latent  (batch, tokens, kv_lora_rank + qk_rope_head_dim)
    indexer      layers.0.index   (batch, tokens, kv_heads, head_dim)
    recurrent    layers.0.conv    (batch, channels, conv_kernel - 1), and matrix (batch, ...)

A format with a scale per vector has its scales in a tensor of their own; formats that pack elements
into blocks are rows of bytes. How ranks divide it is in `logical_shards`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kvplan.arithmetic import ceil_div
from kvplan.dtypes import CacheDTypes, DType
from kvplan.engines.layout import RankLayout, Tensor, merged
from kvplan.engines.logical import logical_cache
from kvplan.engines.logical_shards import Shard, shards
from kvplan.engines.request import Request, encoder_tokens_of
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState, Rwkv
from kvplan.spec.states import CompressedLatent, HeadState, Indexer, LatentAttention, State

# Formats that torch has as an element type; the rest are packed into bytes.
_ELEMENTS = {
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
    "int8_per_token_head": "int8",
    "fp8_per_token_head": "float8_e4m3fn",
}
_BYTES = "uint8"
_SCALE = "float32"  # 4 bytes: `vector_bytes` of every format that has scales per vector
_SCALE_BYTES = 4


def tensors_of_ranks(spec: ModelSpec, request: Request) -> tuple[RankLayout, ...]:
    """The tensors of the logical cache, divided among the ranks.

    Raises:
        UsageError: decode context parallelism, or a missing fact.
    """
    if request.dcp != 1:
        raise UsageError(
            "the logical cache is not divided by decode context parallelism",
            hint="leave --dcp at 1, or choose an --engine",
        )
    cache = logical_cache(spec, request)
    encoder = encoder_tokens_of(spec, request)
    names = (*spec.layers, *spec.draft_layers) if request.with_draft else spec.layers

    def of_rank(shard: Shard) -> tuple[Tensor, ...]:
        tensors: list[Tensor] = []
        for layer in shard.layers:
            states = spec.kinds[names[layer]]
            for position, state in enumerate(states):
                stem = f"layers.{layer}." + (f"{position}." if len(states) > 1 else "")
                held = state.entries(cache.ctx, encoder)
                tensors += _tensors(stem, state, held, cache.dtypes, shard, layer)
        return tuple(tensors)

    return merged(of_rank(shard) for shard in shards(len(names), request))


@dataclass(frozen=True, slots=True)
class _Vectors:
    """What one token (or one sequence) stores side by side: `count` vectors of `dim` elements."""

    name: str
    count: int
    dim: int
    dtype: DType


def _tensors(
    stem: str, state: State, held: int, dtypes: CacheDTypes, shard: Shard, layer: int
) -> Iterator[Tensor]:
    if isinstance(state, RecurrentState):
        yield from _fixed(stem, state, dtypes, shard, layer)
        return
    for vectors in _vectors(state, dtypes):
        heads, tokens = shard.heads_and_tokens(vectors.count, held, _divisible(vectors, shard.tp))
        if heads and tokens and shard.sequences:
            yield from _rows(stem + vectors.name, (shard.sequences, tokens), heads, vectors)


def _vectors(state: State, dtypes: CacheDTypes) -> tuple[_Vectors, ...]:
    if isinstance(state, HeadState):
        return (
            _Vectors("k", state.kv_heads, state.head_dim, dtypes.k),
            _Vectors("v", state.kv_heads, state.value_dim, dtypes.v),
        )
    if isinstance(state, LatentAttention):
        dim = state.kv_lora_rank + state.qk_rope_head_dim
        return (_Vectors("latent", 1, dim, dtypes.k),)
    if isinstance(state, CompressedLatent):
        return (_Vectors("latent", 1, state.head_dim, dtypes.k),)
    if isinstance(state, Indexer):
        return (_Vectors("index", state.kv_heads, state.head_dim, dtypes.k),)
    return ()


def _divisible(vectors: _Vectors, parts: int) -> bool:
    """Whether `parts` ranks can take equal numbers of heads without cutting through a block."""
    share, rest = divmod(vectors.count, parts)
    return not rest and share * vectors.dim % vectors.dtype.block_elements == 0


def _rows(name: str, lead: tuple[int, int], heads: int, vectors: _Vectors) -> Iterator[Tensor]:
    """The values, and their scales where the format has one per vector."""
    dtype, dim = vectors.dtype, vectors.dim
    element = _ELEMENTS.get(dtype.name)
    if element is not None:
        # a single vector per token needs no dimension for it
        single = vectors.name == "latent"
        shape: tuple[int, ...] = (*lead, dim) if single else (*lead, heads, dim)
        yield Tensor(name, shape, element, prod(shape) * dtype.block_bytes)
    else:
        row = ceil_div(heads * dim, dtype.block_elements) * dtype.block_bytes
        yield Tensor(name, (*lead, row), _BYTES, prod(lead) * row)
    if dtype.vector_bytes:
        scales = (*lead, heads)
        yield Tensor(name + "_scale", scales, _SCALE, prod(scales) * _SCALE_BYTES)


def _fixed(
    stem: str, state: RecurrentState, dtypes: CacheDTypes, shard: Shard, layer: int
) -> Iterator[Tensor]:
    """Convolution columns and matrix of one layer, one of each per sequence."""
    parts: list[tuple[str, tuple[int, ...], int, DType]] = []  # name, shape, divided axis, format
    if state.conv_elements:
        channels = state.conv_channels
        columns = state.conv_elements // channels
        window = (columns, channels) if isinstance(state, Rwkv) else (channels, columns)
        parts.append(("conv", window, int(isinstance(state, Rwkv)), state.column_dtype(dtypes)))
    if state.matrix_elements:
        parts.append(("matrix", state.matrix_shape, 0, state.matrix_dtype()))
    for name, shape, axis, dtype in parts:
        size = shard.part_of(shape[axis], layer, divisible=dtype.block_elements == 1)
        if size and shard.sequences:
            own = (*shape[:axis], size, *shape[axis + 1 :])
            yield from _flat(stem + name, (shard.sequences, *own), dtype)


def _flat(name: str, shape: tuple[int, ...], dtype: DType) -> Iterator[Tensor]:
    """A state whose elements form one vector per sequence; packed formats are bytes."""
    element = _ELEMENTS.get(dtype.name)
    own = dtype.vectors_bytes(1, prod(shape[1:]))
    if element is None or dtype.vector_bytes:
        yield Tensor(name, (shape[0], own), _BYTES, shape[0] * own)
    else:
        yield Tensor(name, shape, element, shape[0] * own)
