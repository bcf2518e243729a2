"""The tensors of a context: one cache per kind of layer, as many cells as it may have to hold.

    kv             every layer that keeps all tokens; beside windows it is called kv_base, where a
                   latent stands beside an indexer kv_mla
    kv_swa         layers that keep a window or a chunk
    kv_indexer     one key a token on the layers that own an indexer
    kv_csa, kv_hca DeepSeek V4's compressed rows (ratios 4 and 128), beside windows on every layer
    rs             recurrent states, always float32, one row a sequence and one more a rollback
    state_*        DeepSeek V4's compressors: two float32 matrices a layer and stream

    K = row(type_k, kv_heads x head_dim) x cells x streams     V likewise; a latent has none
    V without flash attention: the row of the widest layer, on every layer

Source: llama.cpp b11434, src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp,
llama-memory-recurrent.cpp and the memories of deepseek32, deepseek4 and minimax-m3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.dtypes import DType
from kvplan.engines.llamacpp.context import Context
from kvplan.spec import recurrent
from kvplan.spec import states as kept

FLOAT = 4  # bytes of a float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One cache over the layers that share its shape.

    Attributes:
        name: as above.
        cells: cells of one stream; rows for states.
        streams: copies of the cells: one a stream, for recurrent states one a snapshot.
        layers: indices of the layers that have it.
        k_rows, v_rows: bytes of one cell of K and of V, by layer; R and S of states.
        window: tokens of one sequence that are ever read, where that is not all.
    """

    name: str
    cells: int
    streams: int
    layers: tuple[int, ...]
    k_rows: tuple[int, ...]
    v_rows: tuple[int, ...]
    window: int | None = None

    @property
    def k_bytes(self) -> int:
        """Bytes of K (of convolution columns for states) over all layers."""
        return sum(self.k_rows) * self.cells * self.streams

    @property
    def v_bytes(self) -> int:
        """Bytes of V (of matrices for states) over all layers."""
        return sum(self.v_rows) * self.cells * self.streams

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return self.k_bytes + self.v_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """How cells are stored.

    Attributes:
        k, v: formats of the rows.
        flash: flash attention; without it V is transposed and every layer takes the widest row.
        latent_values: a latent's V is stored beside its K (older builds).
    """

    k: DType
    v: DType
    flash: bool
    latent_values: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """What one layer stores per cell, in elements, and which cache it goes to; v None: no V."""

    layer: int
    name: str
    k: int
    v: int | None
    ratio: int = 1
    window: int | None = None


def caches_of(
    layers: Iterable[tuple[kept.State, ...]], context: Context, formats: Formats, *, rollback: int
) -> tuple[Cache, ...]:
    """The caches of these layers, in the order in which they are allocated.

    Args:
        layers: what each layer keeps, as the engine reads it (see `families.as_read`).
        context: lengths.
        formats: of the rows.
        rollback: further rows of a recurrent state (n_rs_seq).
    """
    listed = list(enumerate(layers))
    hybrid = any(isinstance(s, recurrent.RecurrentState) for _, states in listed for s in states)
    rows = [
        row
        for index, states in listed
        if states or not hybrid
        for row in _rows(index, states, formats)
    ]
    if not any(row.k for row in rows):
        rows = []  # an encoder
    widest = max((row.v or 0 for row in rows), default=0)
    found: dict[str, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(row)
    names = _names(found)
    caches = [
        _cache(names.get(name, name), members, context, formats, widest)
        for name, members in found.items()
    ]
    states = _states(listed, context, rollback)
    compressors = _compressors(listed, context, rollback)
    return (*caches, *states, *compressors)


def _names(found: dict[str, list[_Row]]) -> dict[str, str]:
    if "kv_swa" in found:
        return {"kv": "kv_base"}
    latent = any(row.v is None for row in found.get("kv", ()))
    return {"kv": "kv_mla"} if "kv_indexer" in found and latent else {}


def _rows(layer: int, states: tuple[kept.State, ...], formats: Formats) -> list[_Row]:
    if not states:
        # A block without attention keeps its place, and a V where flash attention is off.
        return [_Row(layer, "kv", 0, 0)]
    rows = []
    for state in states:
        if isinstance(state, kept.CrossAttention):
            continue  # the encoder's output is attended anew in every step
        if isinstance(state, kept.CompressedLatent):
            rows.append(_Row(layer, "kv_swa", state.head_dim, None, window=state.window))
            if state.ratio is not None:
                name = "kv_csa" if state.ratio == 4 else "kv_hca"
                rows.append(_Row(layer, name, state.head_dim, None, ratio=state.ratio))
        elif isinstance(state, kept.Indexer):
            # Beside plain heads (MiniMax M3) the index gets a V that nothing reads.
            heads = next((s for s in states if isinstance(s, kept.HeadState)), None)
            value = heads.value_dim if heads is not None else None
            rows.append(
                _Row(layer, "kv_indexer", state.kv_heads * state.head_dim, value, ratio=state.ratio)
            )
        elif isinstance(state, kept.LatentAttention):
            value = state.kv_lora_rank if formats.latent_values else None
            rows.append(_Row(layer, "kv", state.kv_lora_rank + state.qk_rope_head_dim, value))
        elif isinstance(state, kept.HeadState):
            window = getattr(state, "window", None) or getattr(state, "chunk", None)
            k, v = state.kv_heads * state.head_dim, state.kv_heads * state.value_dim
            rows.append(_Row(layer, "kv_swa" if window else "kv", k, v, window=window))
    return rows


def _cache(name: str, rows: list[_Row], context: Context, formats: Formats, widest: int) -> Cache:
    first = rows[0]
    cells = context.n_ctx_seq
    if first.window is not None:
        cells = context.window_cells(first.window)
    elif first.ratio > 1:
        cells = context.compressed_cells(first.ratio)
    return Cache(
        name=name,
        cells=cells,
        streams=context.streams,
        layers=tuple(row.layer for row in rows),
        k_rows=tuple(formats.k.vectors_bytes(1, row.k) for row in rows),
        v_rows=tuple(
            0 if row.v is None else formats.v.vectors_bytes(1, row.v if formats.flash else widest)
            for row in rows
        ),
        window=first.window,
    )


def _states(
    listed: list[tuple[int, tuple[kept.State, ...]]], context: Context, rollback: int
) -> list[Cache]:
    held = [
        (index, state)
        for index, states in listed
        for state in states
        if isinstance(state, recurrent.RecurrentState)
    ]
    if not held:
        return []
    return [
        Cache(
            name="rs",
            cells=context.n_seq_max,
            streams=1 + rollback,
            layers=tuple(index for index, _ in held),
            k_rows=tuple(state.conv_elements * FLOAT for _, state in held),
            v_rows=tuple(state.matrix_elements * FLOAT for _, state in held),
        )
    ]


def _compressors(
    listed: list[tuple[int, tuple[kept.State, ...]]], context: Context, rollback: int
) -> list[Cache]:
    """DeepSeek V4: the running sums of rows that are not complete, keys and scores alike.

    A compressor of ratio 4 overlaps two windows: 8 rows of twice the width; ratio 128 has 128 rows.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for index, states in listed:
        compressed = [s for s in states if isinstance(s, kept.CompressedLatent) and s.ratio]
        indexed = [s for s in states if isinstance(s, kept.Indexer) and s.ratio > 1]
        for state in compressed:
            overlaps = state.ratio == 4
            name = "state_csa" if overlaps else "state_hca"
            rows = 8 if overlaps else state.ratio or 1
            width = state.head_dim * (2 if overlaps else 1)
            found.setdefault(name, []).append((index, rows * width))
        for state_ in indexed:
            found.setdefault("state_indexer", []).append((index, 8 * 2 * state_.head_dim))
    return [
        Cache(
            name=name,
            cells=1 + rollback,
            streams=context.streams,
            layers=tuple(index for index, _ in members),
            k_rows=tuple(size * FLOAT for _, size in members),
            v_rows=tuple(size * FLOAT for _, size in members),
        )
        for name, members in found.items()
    ]
