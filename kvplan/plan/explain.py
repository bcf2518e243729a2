"""Why a cache costs what it costs, what the model's design saves, and what a cache is for.

Generating n tokens without a cache runs attention over every earlier token again at each step: step
t costs t^2 score computations, n steps cost sum(t^2) = n(n+1)(2n+1)/6. With a cache step t computes
t of them: sum(t) = n(n+1)/2. The ratio is exactly (2n+1)/3, often given as 2n/3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from kvplan.engines.logical import logical_cache
from kvplan.named_tuple import NamedTuple
from kvplan.plan.size import SizeResult
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    FullAttention,
    HeadState,
    Indexer,
    LatentAttention,
    SharedCache,
    SlidingAttention,
    State,
)

DEFAULT_TOKENS = (128, 512, 1024, 2048)
CAVEAT = (
    "The ratio counts attention operations, not seconds, and does not depend on the model's width:"
    " the projections and feed-forward layers of the repeated tokens come on top, and short steps"
    " are bound by memory bandwidth."
)

if TYPE_CHECKING:
    from kvplan.plan.decode import Decode


class Variant(NamedTuple):
    """The same model with another kind of attention: bytes of one sequence, None if not known."""

    name: str
    meaning: str
    bytes_per_sequence: int | None


class Generation(NamedTuple):
    """Attention operations to generate `tokens` tokens, per head and layer."""

    tokens: int
    without_cache: int
    with_cache: int

    @property
    def ratio(self) -> Fraction:
        """without / with, exactly (2n + 1) / 3."""
        return Fraction(self.without_cache, self.with_cache)

    @property
    def approximation(self) -> Fraction:
        """The usual 2n / 3."""
        return Fraction(2 * self.tokens, 3)


class Explanation(NamedTuple):
    """Everything `kvplan explain` prints."""

    size: SizeResult
    variants: tuple[Variant, ...]
    generations: tuple[Generation, ...]
    decode: Decode | None = None
    devices: str = ""


def generation(tokens: int) -> Generation:
    """Operations to generate `tokens` tokens, in closed form."""
    n = tokens
    return Generation(n, n * (n + 1) * (2 * n + 1) // 6, n * (n + 1) // 2)


def explain(result: SizeResult, tokens: Sequence[int] = DEFAULT_TOKENS) -> Explanation:
    """Explain a size: variants of the model beside it, and generation with and without a cache."""
    return Explanation(result, _variants(result), tuple(generation(n) for n in tokens))


def _variants(result: SizeResult) -> tuple[Variant, ...]:
    """The model as it is, then with one thing changed in each row."""
    spec = result.model.spec
    label = f"as it is ({attention_label(spec)})"
    rows = [Variant(label, "what its design keeps", result.logical.bytes_per_sequence)]
    states = [state for one in spec.kinds.values() for state in one]
    if any(isinstance(state, (SlidingAttention, ChunkedAttention)) for state in states):
        whole = _rebuilt(result, lambda state, heads: _every_token(state))
        rows.append(Variant("no windows", "each attention layer keeps every token", whole))
    if any(isinstance(state, SharedCache) for state in states):
        own = _with_kinds(result, _unshared(spec))
        rows.append(Variant("no shared layers", "each layer keeps a cache of its own", own))
    if _attending(spec) is not None and any(_is_recurrent(one) for one in spec.kinds.values()):
        attending = _with_kinds(result, _without_recurrence(spec))
        meaning = "recurrent layers attend like the others"
        rows.append(Variant("no recurrent layers", meaning, attending))
    if any(isinstance(state, Indexer) for state in states):
        dense = _with_kinds(result, _without_indexer(spec))
        rows.append(Variant("no indexer", "dense attention, which picks no tokens", dense))
    if any(_heads_shape(state) for state in spec.states()):
        every = any(isinstance(state, CompressedLatent) for state in states)
        more = ", every token" if every else ""
        rows += [
            Variant(
                "MHA", f"one K and V per query head{more}", _rebuilt(result, _with_heads(None))
            ),
            *_grouped(result, more),
            Variant(
                "MQA", f"one K and V for all query heads{more}", _rebuilt(result, _with_heads(1))
            ),
        ]
    return tuple(rows)


Kinds = Mapping[str, "tuple[State, ...]"]


def _with_kinds(result: SizeResult, kinds: Kinds) -> int:
    spec = result.model.spec.replaced(kinds=kinds)
    return logical_cache(spec, result.request).bytes_per_sequence


def _unshared(spec: ModelSpec) -> Kinds:
    """Each shared kind keeps what the kind it reads keeps."""
    found = {}
    for name, states in spec.kinds.items():
        while states and isinstance(states[0], SharedCache):
            read = states[0].reads
            states = spec.kinds[read if isinstance(read, str) else spec.layers[read]]
        found[name] = states
    return found


def _is_recurrent(states: tuple[State, ...]) -> bool:
    return bool(states) and all(state.fixed for state in states)


def _attending(spec: ModelSpec) -> tuple[State, ...] | None:
    """What the first layer keeps that attends to every token."""
    for name in spec.layers:
        states = spec.kinds[name]
        if any(isinstance(state, (FullAttention, LatentAttention)) for state in states):
            return tuple(state for state in states if not state.fixed)
    return None


def _without_recurrence(spec: ModelSpec) -> Kinds:
    attending = _attending(spec) or ()
    return {
        name: attending if _is_recurrent(states) else states for name, states in spec.kinds.items()
    }


def _without_indexer(spec: ModelSpec) -> Kinds:
    return {
        name: tuple(state for state in states if not isinstance(state, Indexer))
        for name, states in spec.kinds.items()
    }


def _grouped(result: SizeResult, more: str) -> list[Variant]:
    """GQA with 8 KV heads, the most common choice, where the model itself does not group."""
    spec = result.model.spec
    grouped = any(
        isinstance(state, HeadState) and 1 < state.kv_heads < (state.heads or spec.heads or 0)
        for state in spec.states()
    )
    if grouped or spec.heads is None or spec.heads % 8 or spec.heads <= 8:
        return []
    bytes_ = _rebuilt(result, _with_heads(8))
    if bytes_ is None:
        return []
    return [Variant("GQA", f"8 KV heads shared by all query heads{more}", bytes_)]


Change = Callable[[State, "int | None"], "State | None"]


def _rebuilt(result: SizeResult, change: Change) -> int | None:
    """Bytes of one sequence when each attention state is changed; None if one cannot be."""
    spec = result.model.spec
    kinds = {}
    for name, states in spec.kinds.items():
        changed: list[State] = []
        for state in states:
            if not _heads_shape(state) or isinstance(state, CrossAttention):
                changed.append(state)
                continue
            other = change(state, getattr(state, "heads", None) or spec.heads)
            if other is None:
                return None
            changed.append(other)
        kinds[name] = tuple(changed)
    return logical_cache(spec.replaced(kinds=kinds), result.request).bytes_per_sequence


def _with_heads(kv_heads: int | None) -> Change:
    """The same attention with `kv_heads` KV heads; None means one per query head."""

    def change(state: State, heads: int | None) -> State | None:
        shape = _heads_shape(state)
        if shape is None or heads is None or shape[0] is None:
            return None
        count = kv_heads or heads
        if heads % count:
            return None
        if isinstance(state, HeadState):
            return state.replaced(kv_heads=count, heads=heads)  # windows stay as they are
        return FullAttention(kv_heads=count, head_dim=shape[0], v_head_dim=shape[1], heads=heads)

    return change


def _every_token(state: State) -> State:
    if isinstance(state, HeadState):
        return FullAttention(
            kv_heads=state.kv_heads,
            head_dim=state.head_dim,
            v_head_dim=state.v_head_dim,
            heads=state.heads,
        )
    return state


def _heads_shape(state: State) -> tuple[int | None, int | None] | None:
    """(head_dim, v_head_dim) of an attention state as plain heads; None for other states."""
    if isinstance(state, HeadState):
        return state.head_dim, state.value_dim
    if isinstance(state, LatentAttention):
        if state.qk_nope_head_dim is None:
            return None, state.v_head_dim
        return state.qk_nope_head_dim + state.qk_rope_head_dim, state.v_head_dim
    if isinstance(state, CompressedLatent):
        return state.head_dim, state.head_dim
    return None
