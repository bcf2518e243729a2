"""The layers of a cache: each kind of layer is worked out once, and laid out as often as it occurs.

A spec layer gives one cache layer, with two exceptions: a LongCat block keeps two, and an
encoder-decoder layer keeps one in each of two caches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kvplan.engines.layout import Tensor
from kvplan.engines.transformers import attention as kv
from kvplan.engines.transformers.compressed import compressed_layer
from kvplan.engines.transformers.families import LEGACY, Family, Legacy
from kvplan.engines.transformers.held import Held, LayerCache, alias, own, renamed
from kvplan.engines.transformers.layer_types import is_indexed
from kvplan.engines.transformers.options import Options
from kvplan.engines.transformers.quantized import quantized_layer
from kvplan.engines.transformers.recurrent import recurrent_states
from kvplan.engines.transformers.run import Run, stored
from kvplan.engines.transformers.versions import Rules
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState, ShortConvolution
from kvplan.spec.states import (
    CompressedLatent,
    CrossAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SharedCache,
    State,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Everything that decides a layer's tensors, the run aside."""

    spec: ModelSpec
    family: Family
    rules: Rules
    options: Options
    dtype: str
    tp: int = 1
    with_draft: bool = False

    @property
    def kind(self) -> str:
        """dynamic, static or quantized; a model with its own cache ignores the option."""
        return "dynamic" if self.family.own_cache else self.options.kind

    def max_cache_len(self, run: Run) -> int:
        """Slots of a static layer: generate() takes the larger of the request and the option."""
        return max(run.tokens, self.options.max_cache_len or 0)

    def build(self, run: Run) -> Cache:
        """The cache as it stands after `run`."""
        counted = self.spec.counted_kinds(with_draft=self.with_draft)
        kinds = {name: self.layer_caches(states, run) for name, states, _ in counted}
        names = self.spec.layers + (self.spec.draft_layers if self.with_draft else ())
        return Cache(kinds, names, self._handed_over(run))

    def layer_caches(self, states: tuple[State, ...], run: Run) -> tuple[LayerCache, ...]:
        """The cache layers of a layer that keeps `states`.

        Raises:
            UsageError: a combination that no class of transformers holds.
        """
        indexer = next((s for s in states if isinstance(s, Indexer)), None)
        compressed = next((s for s in states if isinstance(s, CompressedLatent)), None)
        recurrent = [s for s in states if isinstance(s, RecurrentState)]
        attention = [s for s in states if isinstance(s, HeadState | LatentAttention)]
        if compressed is not None:
            if self.rules.legacy:
                raise UsageError(f"transformers {self.rules.version} has no DeepSeek V4")
            return (compressed_layer(compressed, indexer, run, self.dtype),)
        if self.tp > 1 and recurrent:
            raise UsageError("tensor parallelism of recurrent layers is not modelled")
        matrices = tuple(t for s in recurrent for t in self._recurrent(s, run))
        if recurrent and not attention:
            return (LayerCache(self._recurrent_class(), matrices),)
        if not attention:
            plain = all(isinstance(s, SharedCache) for s in states)
            if not plain:
                raise UsageError("an indexer without the attention it serves is not modelled")
            return (LayerCache("DummyLayer", ()),)
        layers = [self._attention(s, run) for s in attention]
        if indexer is not None:
            layers[0] = self._with_indexer(layers[0], indexer, attention[0], run)
        if matrices:
            first = layers[0]
            layers[0] = LayerCache(_HYBRID.get(first.cls, first.cls), matrices + first.tensors)
        if len({isinstance(s, CrossAttention) for s in attention}) == 2:
            layers = [
                LayerCache(
                    layer.cls,
                    layer.tensors,
                    f"{'cross' if isinstance(s, CrossAttention) else 'self'}_attention_cache.",
                )
                for s, layer in zip(attention, layers, strict=True)
            ]
        return tuple(layers)

    def _attention(self, state: kv.Attention, run: Run) -> LayerCache:
        wide = kv.widths(state, self.spec, self.family, self.rules, self.tp)
        window = kv.window_of(state, self.family) if isinstance(state, HeadState) else None
        if not self.options.with_config:
            window = None
        sliding = "SlidingWindow" if window is not None else ""
        if self.kind == "quantized":
            quantization = self.options.quantization
            return quantized_layer(wide, quantization, run, self.dtype, legacy=self.rules.legacy)
        if self.kind == "static":
            length = self.max_cache_len(run)
            tensors = kv.static_kv(state, wide, window, run, length, self.dtype)
            cls = f"Static{sliding}Layer"
        else:
            tensors = kv.dynamic_kv(state, wide, window, run, self.dtype)
            cls = f"Dynamic{sliding}Layer"
        if isinstance(state, LatentAttention) and is_indexed(self.spec):
            cls = cls.replace("Layer", "IndexedLayer")
        legacy = self._legacy()
        if legacy is None:
            return LayerCache(cls, tensors)
        tensors = renamed(tensors, {"keys": legacy.keys, "values": legacy.values})
        short = next((s for s in self.spec.states() if isinstance(s, ShortConvolution)), None)
        if legacy.conv_everywhere and short is not None and short.conv_kernel:
            shape = (run.batch, short.channels, short.conv_kernel)
            tensors = (own(legacy.conv, shape, self.dtype), *tensors)
        return LayerCache(legacy.cache, tensors)

    def _with_indexer(
        self, layer: LayerCache, indexer: Indexer, state: kv.Attention, run: Run
    ) -> LayerCache:
        if self.rules.legacy or not self.rules.mla_compressed:
            raise UsageError(
                f"sparse attention with an indexer is not modelled for transformers "
                f"{self.rules.version}",
                hint="5.15 and later are",
            )
        length = self.max_cache_len(run) if self.kind == "static" else run.tokens
        keys = kv.indexer_keys(indexer, state, run.batch, length, self.dtype)
        cls = layer.cls
        if isinstance(state, HeadState):
            static = "Static" if self.kind == "static" else ""
            cls = f"MiniMaxM3VLSparse{static}CacheLayer"
        return LayerCache(cls, (*layer.tensors, keys))

    def _recurrent(self, state: RecurrentState, run: Run) -> tuple[Held, ...]:
        if self.rules.legacy and self.kind != "dynamic":
            raise UsageError(
                f"transformers {self.rules.version} has only a dynamic cache for recurrent layers"
            )
        return recurrent_states(
            state, self.family, self.spec.model_type, self.rules, run.batch, self.dtype
        )

    def _legacy(self) -> Legacy | None:
        return LEGACY.get(self.spec.model_type or "") if self.rules.legacy else None

    def _recurrent_class(self) -> str:
        legacy = self._legacy()
        if legacy is not None:
            return legacy.cache
        return self.family.own_cache or "LinearAttentionLayer"

    def _handed_over(self, run: Run) -> tuple[tuple[int, tuple[Held, ...]], ...]:
        """4.57: the K and V that sharing layers read stay in the cache under their own name."""
        if not self.rules.legacy or self.kind != "dynamic":
            return ()
        found = []
        for source in sorted(set(self.spec.shared_sources().values())):
            state = next(
                (s for s in self.spec.kinds[self.spec.layers[source]] if isinstance(s, HeadState)),
                None,
            )
            if state is None:
                continue
            wide = kv.widths(state, self.spec, self.family, self.rules, self.tp)
            window = kv.window_of(state, self.family)
            # What an update returns: all it concatenated, not only what the layer goes on keeping.
            tokens = run.tokens if window is None else stored(window, run)
            pair = tuple(
                alias(f"shared_layers.{source}.{name}", (run.batch, heads, tokens, dim), self.dtype)
                for name, heads, dim in (
                    ("keys", wide.k_heads, wide.k_dim),
                    ("values", wide.v_heads, wide.v_dim),
                )
            )
            found.append((source, pair))
        return tuple(found)


_HYBRID = {
    "DynamicLayer": "LinearAttentionAndFullAttentionLayer",
    "DynamicSlidingWindowLayer": "LinearAttentionAndSlidingWindowAttentionLayer",
    "StaticLayer": "LinearAttentionAndStaticFullAttentionLayer",
    "StaticSlidingWindowLayer": "LinearAttentionAndStaticSlidingWindowAttentionLayer",
}


@dataclass(frozen=True, slots=True)
class Cache:
    """A whole cache: each kind's cache layers, the kinds in layer order, and what lies beside."""

    kinds: dict[str, tuple[LayerCache, ...]]
    layers: tuple[str, ...]
    beside: tuple[tuple[int, tuple[Held, ...]], ...] = ()

    @property
    def bytes(self) -> int:
        """Sum of all tensors, views by their own size."""
        return self._total("bytes") + sum(t.bytes for _, pair in self.beside for t in pair)

    @property
    def held(self) -> int:
        """Bytes of all storages behind them."""
        return self._total("held")

    def _total(self, what: str) -> int:
        each = {k: sum(getattr(c, what) for c in caches) for k, caches in self.kinds.items()}
        return sum(each[name] * count for name, count in Counter(self.layers).items())

    @property
    def classes(self) -> dict[str, int]:
        """Cache class -> number of cache layers."""
        found: Counter[str] = Counter()
        for name, count in Counter(self.layers).items():
            for cache in self.kinds[name]:
                found[cache.cls] += count
        return dict(found)

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor by name, in layer order; tensors without elements left out."""
        rows = {
            name: [
                [(f".{t.name}", t.shape, t.dtype, t.bytes) for t in c.tensors if t.bytes]
                for c in caches
            ]
            for name, caches in self.kinds.items()
        }
        found = []
        index: Counter[str] = Counter()
        for name in self.layers:
            for cache, row in zip(self.kinds[name], rows[name], strict=True):
                stem = f"{cache.prefix}layers.{index[cache.prefix]}"
                index[cache.prefix] += 1
                found += [Tensor(stem + end, shape, dtype, size) for end, shape, dtype, size in row]
        for _, pair in self.beside:
            found += [Tensor(t.name, t.shape, t.dtype, t.bytes) for t in pair]
        return tuple(found)
