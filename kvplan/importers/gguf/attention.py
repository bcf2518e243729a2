"""The heads and dimensions of attention, and the state that an attention layer keeps.

`attention.head_count_kv` may be an array, 0 for a layer without attention; absent it equals
`attention.head_count`. `key_length` and `value_length` default to embedding_length / head_count,
their `_swa` forms hold for layers with a window. In a latent model `key_length_mla` and
`value_length_mla` are the decompressed sizes, and the cache is kv_lora_rank plus the rotary key.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.importers.gguf.architectures import Architecture
from kvplan.importers.gguf.keys import BUILD, RULE, Keys
from kvplan.importers.gguf.windows import Windows
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    FullAttention,
    LatentAttention,
    SlidingAttention,
    State,
)

HEADS, KV_HEADS = "attention.head_count", "attention.head_count_kv"
_PLAIN = ("attention.key_length", "attention.value_length")
_SWA = ("attention.key_length_swa", "attention.value_length_swa")


@dataclass(frozen=True, slots=True)
class Heads:
    """Query and KV heads of every layer, 0 for layers without; `common` is the model's count.

    Attributes:
        query, kv: per layer.
        common: query heads of the first layer that has any, None in a model without attention.
        origin: where the KV heads stand.
    """

    query: tuple[int, ...]
    kv: tuple[int, ...]
    common: int | None
    origin: str

    def own(self, layer: int) -> int | None:
        """The layer's query heads where they differ from the common count."""
        return None if self.query[layer] == self.common else self.query[layer]


def read_heads(keys: Keys, total: int, *, attention: bool) -> Heads:
    """Read the heads of `total` layers.

    Args:
        keys: the metadata.
        total: layers.
        attention: some layer has attention, so head_count must be there.

    Raises:
        ImportRefused: no head counts, KV heads without query heads, or heads that do not divide.
    """
    query = keys.per_layer(HEADS, total)
    if query is None:
        if attention:
            keys.refuse(HEADS, "is missing")
        query = (0,) * total
    kv = keys.per_layer(KV_HEADS, total)
    origin = keys.full(KV_HEADS)
    if kv is None:
        kv, origin = query, f"{keys.full(HEADS)}, as {origin} is absent"
    for layer, (heads, kv_heads) in enumerate(zip(query, kv, strict=True)):
        if kv_heads and (heads == 0 or heads % kv_heads):
            keys.refuse(
                f"{KV_HEADS}[{layer}]" if isinstance(keys.raw(KV_HEADS), tuple) else KV_HEADS,
                f"is {kv_heads}, which does not divide head_count {heads}",
            )
    if attention and not any(kv):
        keys.refuse(KV_HEADS, "is 0 in every layer of a model with attention")
    common = next((heads for heads in query if heads), None)
    return Heads(query, kv, common, origin)


def _dims(keys: Keys, heads: Heads, swa: bool) -> tuple[int, int, str]:
    """K and V elements per head, and where they stand."""
    found: list[int] = []
    origins: list[str] = []
    for plain, narrow in zip(_PLAIN, _SWA, strict=True):
        size = keys.number(narrow) if swa else None
        origin = keys.full(narrow)
        if size is None:
            size, origin = keys.number(plain), keys.full(plain)
        if size is None:
            size, origin = _derived_dim(keys, heads, plain)
        found.append(size)
        origins.append(origin)
    return found[0], found[1], ", ".join(dict.fromkeys(origins))


def _derived_dim(keys: Keys, heads: Heads, key: str) -> tuple[int, str]:
    width = keys.required("embedding_length")
    counts = set(heads.query) - {0}
    if len(counts) != 1:
        keys.refuse(key, "is missing, and layers differ in their head counts")
    count = counts.pop()
    if width % count:
        keys.refuse(
            key, f"is missing, and embedding_length {width} is no multiple of head_count {count}"
        )
    return width // count, f"{keys.full('embedding_length')} / {keys.full(HEADS)}"


class Attention:
    """Makes the state of an attention layer; every dimension is read once, when first needed."""

    def __init__(self, keys: Keys, row: Architecture, heads: Heads, windows: Windows) -> None:
        self.keys = keys
        self.row = row
        self.heads = heads
        self.windows = windows
        self._dims: dict[bool, tuple[int, int, str]] = {}
        self._latents: dict[bool, tuple[int, int, int | None, int | None, tuple[str, ...]]] = {}

    def state(self, layer: int) -> tuple[State, tuple[str, ...]]:
        """The state of a layer and its origins."""
        slides = self.windows.slides[layer]
        origin: tuple[str, ...]
        if self.row.latent:
            return self._latent(layer, slides)
        if slides not in self._dims:
            self._dims[slides] = _dims(self.keys, self.heads, slides)
        k, v, where = self._dims[slides]
        shape = FullAttention(
            kv_heads=self.heads.kv[layer],
            head_dim=k,
            v_head_dim=None if v == k else v,
            heads=self.heads.own(layer),
        )
        origin = (self.heads.origin, where)
        if self.windows.size is None or not slides:
            return shape, origin
        return _windowed(shape, self.windows), (*origin, *self.windows.origin)

    def _latent(self, layer: int, slides: bool) -> tuple[State, tuple[str, ...]]:
        if slides not in self._latents:
            self._latents[slides] = self._read_latent(slides)
        rank, rope, nope, value, origin = self._latents[slides]
        heads = self.heads.own(layer)
        if slides:
            # The same latent vector per token, kept for the window only.
            size = self.windows.size
            assert size is not None
            vector = CompressedLatent(head_dim=rank + rope, window=size, heads=heads)
            return vector, (*origin, *self.windows.origin)
        state = LatentAttention(
            kv_lora_rank=rank,
            qk_rope_head_dim=rope,
            qk_nope_head_dim=nope,
            v_head_dim=value,
            heads=heads,
        )
        return state, origin

    def _read_latent(
        self, slides: bool
    ) -> tuple[int, int, int | None, int | None, tuple[str, ...]]:
        keys, end = self.keys, "_swa" if slides else ""
        rank_key, rope_key = f"attention.kv_lora_rank{end}", "rope.dimension_count"
        rank = keys.required(rank_key)
        rope = keys.number(rope_key)
        key_mla = keys.number(f"attention.key_length_mla{end}")
        value_mla = keys.number(f"attention.value_length_mla{end}")
        if (key_mla is None) != (value_mla is None):
            absent = "key" if key_mla is None else "value"
            keys.refuse(
                f"attention.{absent}_length_mla{end}", "is missing, its counterpart is there"
            )
        cached = keys.number("attention.key_length") if key_mla and not slides else None
        origin: tuple[str, ...] = (keys.full(rank_key), keys.full(rope_key))
        if rope is None:
            if cached is None or cached <= rank:
                keys.refuse(rope_key, "is missing, so the size of the rotary key is not known")
            rope, origin = cached - rank, (keys.full(rank_key), keys.full("attention.key_length"))
        if cached is not None and cached != rank + rope:
            keys.refuse(
                "attention.key_length",
                f"is {cached}, but kv_lora_rank {rank} and rope.dimension_count {rope}"
                f" make {rank + rope}",
            )
        if key_mla is None and not slides:
            key_mla = keys.number("attention.key_length")
            value_mla = keys.number("attention.value_length")
            self._warn_about_heads(key_mla, value_mla)
        nope = key_mla - rope if key_mla is not None else None
        if nope is not None and nope < 1:
            keys.refuse(rope_key, f"is {rope}, more than a key of {key_mla} elements can hold")
        return rank, rope, nope, value_mla, origin

    def _warn_about_heads(self, key: int | None, value: int | None) -> None:
        keys = self.keys
        why = (
            f"{BUILD} always caches this architecture"
            if self.row.latent_as_heads
            else f"{keys.full('attention.key_length_mla')} is absent, so {BUILD} caches this file"
        )
        sizes = f" of {key} K and {value} V elements" if key and value else ""
        keys.warn(
            "llama-cpp-differs",
            f"the model keeps one latent per token, but {why} as {max(self.heads.kv)}"
            f" decompressed heads{sizes}",
        )


def _windowed(shape: FullAttention, windows: Windows) -> SlidingAttention | ChunkedAttention:
    """The same heads, kept for the window only."""
    size = windows.size
    assert size is not None
    given = {item.name: getattr(shape, item.name) for item in shape.fields()}
    if windows.chunk:
        return ChunkedAttention(**given, chunk=size)
    return SlidingAttention(**given, window=size)


def compressed_state(
    keys: Keys, heads: Heads, windows: Windows, layer: int, ratio: int
) -> tuple[CompressedLatent, tuple[str, ...]]:
    """DeepSeek V4's state of one layer: a window of vectors, and one for every `ratio` tokens."""
    assert windows.size is not None
    state = CompressedLatent(
        head_dim=keys.required("attention.key_length"),
        window=windows.size,
        ratio=ratio or None,
        heads=heads.own(layer),
    )
    named = ("attention.key_length", "attention.sliding_window", "attention.compress_ratios")
    return state, tuple(keys.full(key) for key in named)


def indexer_ratio_rule() -> str:
    """Which of DeepSeek V4's layers own an indexer."""
    return f"layers of ratio 4 own an indexer: {RULE}"
