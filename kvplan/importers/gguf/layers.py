"""The layers of a model: what each keeps, from the architecture's row and the keys it names."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.importers.gguf.architectures import Architecture
from kvplan.importers.gguf.attention import (
    Attention,
    Heads,
    compressed_state,
    indexer_ratio_rule,
    read_heads,
)
from kvplan.importers.gguf.keys import BUILD, RULE, Keys
from kvplan.importers.gguf.recurrence import recurrent_layers, recurrent_state
from kvplan.importers.gguf.windows import Windows, windows
from kvplan.spec.states import CrossAttention, FullAttention, Indexer, SharedCache, State

RATIOS, TYPES = "attention.compress_ratios", "attention.indexer.types"
INDEX_DIM, SHARED = "attention.indexer.key_length", "attention.shared_kv_layers"
_INDEXED_RATIO = 4  # DeepSeek V4: of its ratios 0, 4 and 128
_KNOWN_RATIOS = (0, 4, 128)
_GEMMA3N_OWN = 20


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps, and the keys and rules that say so."""

    states: tuple[State, ...]
    origin: tuple[str, ...] = ()


def read_layers(keys: Keys, row: Architecture, trunk: int, total: int) -> tuple[list[Layer], Heads]:
    """All layers, the last total - trunk being those of multi-token prediction.

    Raises:
        ImportRefused: a fact is missing, or facts contradict each other.
    """
    if not row.keeps:
        return _nothing(keys, total)
    if keys.switch("attention.causal") is False:
        keys.warn(
            "bidirectional-model",
            f"{keys.full('attention.causal')} is false: every token attends to all others, so the"
            f" cache that {BUILD} allocates for this architecture serves no later step",
        )
    recurrence = row.recurrence
    heads = read_heads(
        keys, total, attention=recurrence is None or recurrence.layers not in ("all",)
    )
    if row.compressed:
        return _compressed(keys, row, heads, trunk, total), heads
    slides = windows(keys, row.window, trunk, total)
    mask: tuple[bool, ...] = (False,) * total
    how = ""
    if recurrence:
        mask, how = recurrent_layers(keys, recurrence, heads.kv, trunk)
        if not any(mask) and recurrence.layers != "no_kv_heads":
            keys.refuse("block_count", f"is {trunk}, and none of these layers is recurrent")
    attention = Attention(keys, row, heads, slides)
    indexed, index_origin = _indexed(keys, row, trunk, total)
    layers = []
    for layer in range(total):
        states: list[State] = []
        origin: tuple[str, ...] = ()
        has_attention = heads.kv[layer] > 0 and not (
            mask[layer] and recurrence and recurrence.layers != "beside"
        )
        if recurrence and recurrence.layers == "all":
            has_attention = False
        if has_attention:
            state, origin = attention.state(layer)
            states.append(state)
        elif not mask[layer] and not row.headless:
            key = "attention.head_count_kv"
            keys.refuse(f"{key}[{layer}]", "is 0, and what such a layer keeps is not known")
        if row.cross and isinstance(states[0], FullAttention):
            shape = states[0]
            states.append(
                CrossAttention(
                    kv_heads=shape.kv_heads,
                    head_dim=shape.head_dim,
                    v_head_dim=shape.v_head_dim,
                    heads=shape.heads,
                )
            )
        if mask[layer] and recurrence:
            states.append(recurrent_state(keys, recurrence, heads.query))
            origin = (*origin, how)
        if has_attention and indexed[layer] and not slides.slides[layer]:
            states.append(Indexer(head_dim=keys.required(INDEX_DIM)))
            origin = (*origin, keys.full(INDEX_DIM), index_origin)
        layers.append(Layer(tuple(states), origin))
    if row.shared:
        _share(keys, layers, slides)
    return layers, heads


def _nothing(keys: Keys, total: int) -> tuple[list[Layer], Heads]:
    keys.warn(
        "bidirectional-model",
        "every token attends to all others (an encoder or a diffusion model), so nothing is kept"
        " between steps",
    )
    query = keys.per_layer("attention.head_count", total) or (0,) * total
    heads = Heads(query, (0,) * total, next((count for count in query if count), None), "")
    return [Layer((), (f"attention in both directions: {RULE}",))] * total, heads


def _compressed(keys: Keys, row: Architecture, heads: Heads, trunk: int, total: int) -> list[Layer]:
    slides = windows(keys, row.window, trunk, total)
    # The converter lists the layers of prediction too, also where it leaves them out of the file.
    raw = keys.raw(RATIOS)
    longest = max(total, len(raw)) if isinstance(raw, tuple) else total
    ratios = keys.array(RATIOS, range(total, longest + 1))
    if any(ratios[trunk:]):
        keys.refuse(RATIOS, f"compresses a layer beyond the {trunk} of the model")
    layers = []
    for layer in range(total):
        ratio = ratios[layer]
        if ratio not in _KNOWN_RATIOS:
            keys.refuse(
                f"{RATIOS}[{layer}]", f"is {ratio}, what such a layer keeps is not known ({BUILD})"
            )
        state, origin = compressed_state(keys, heads, slides, layer, ratio)
        states: tuple[State, ...] = (state,)
        if ratio == _INDEXED_RATIO:
            states = (state, Indexer(head_dim=keys.required(INDEX_DIM), ratio=ratio))
            origin = (*origin, keys.full(INDEX_DIM), indexer_ratio_rule())
        layers.append(Layer(states, origin))
    return layers


def _indexed(keys: Keys, row: Architecture, trunk: int, total: int) -> tuple[tuple[bool, ...], str]:
    """Which layers own an indexer; a layer of prediction has one whenever the model has any."""
    if row.indexer is None:
        return (False,) * total, ""
    if row.indexer == "every":
        return (True,) * total, f"every layer owns an indexer: {RULE}"
    if row.indexer == "after_dense":
        dense = keys.number("leading_dense_block_count", minimum=0) or 0
        return (
            tuple(layer >= dense for layer in range(total)),
            f"layers from {keys.full('leading_dense_block_count')} on own an indexer: {RULE}",
        )
    if keys.raw(TYPES) is not None:
        listed = (
            keys.per_layer(TYPES, trunk) if _is_number(keys) else keys.array(TYPES, (trunk, total))
        )
        assert listed is not None
        owners = [bool(item) for item in listed]
        return (*owners, *[True] * (total - len(owners))), keys.full(TYPES)
    return _indexed_by_default(keys, trunk, total)


def _is_number(keys: Keys) -> bool:
    return not isinstance(keys.raw(TYPES), tuple) and isinstance(keys.raw(TYPES), int)


def _indexed_by_default(keys: Keys, trunk: int, total: int) -> tuple[tuple[bool, ...], str]:
    if keys.architecture != "glm-dsa":
        if not keys.number("attention.indexer.top_k", minimum=0):
            return (False,) * total, ""
        keys.refuse(TYPES, "is missing, so the layers that own an indexer are not known")
    # Files from before the key: GLM 5 and 5.1 are told from 5.2 by their shorter context.
    if keys.required("context_length") < 1_048_576:
        return (True,) * total, f"every layer of a context below 1,048,576: {RULE}"
    owners = [layer < 3 or layer % 4 == 2 for layer in range(trunk)]  # 0 1 2 . . . 6 . . . 10
    return (*owners, *[True] * (total - trunk)), f"GLM 5.2's layers 0, 1, 2, 6, 10, ...: {RULE}"


def _share(keys: Keys, layers: list[Layer], slides: Windows) -> None:
    """Let the last layers read the last earlier layer of their own sort (sliding or full)."""
    total = len(layers)
    count, origin = keys.number(SHARED, minimum=0), keys.full(SHARED)
    if count is None and keys.architecture == "gemma3n":
        count, origin = (
            max(0, total - _GEMMA3N_OWN),
            f"only the first 20 layers own a cache: {RULE}",
        )
    if not count:
        return
    own = total - count
    if own < 1:
        keys.refuse(SHARED, f"is {count} of {total} layers, none is left to be read")
    if keys.architecture == "gemma3n" and own != _GEMMA3N_OWN:
        keys.warn(
            "llama-cpp-differs",
            f"{own} layers own a cache, {BUILD} gives one to the first {_GEMMA3N_OWN} whatever"
            " the file says",
        )
    for layer in range(own, total):
        same = [index for index in range(own) if slides.slides[index] == slides.slides[layer]]
        if not same:
            keys.refuse(SHARED, f"is {count}, but layer {layer} finds no earlier layer of its sort")
        layers[layer] = Layer((SharedCache(reads=same[-1]),), (origin,))
