"""Which part of a model the proof runs: every kind of layer, few of each, short windows.

    layers      the first of each kind, in the model's order; two where there is only one kind
    windows     cut to `LONGEST_SPAN` tokens where they are longer (chunks too), so that a run
                crosses their end several times
    encoder     as it is up to `LONGEST_ENCODER` tokens
    not cut     heads, KV heads, head dimensions, latents, states: all that makes up an entry

What is cut is said, and so is what cannot be run: a kind whose computation a spec does not pin
down, or a format whose bits are not spelt out, is `Unproven`, never passed over.
"""

from __future__ import annotations

from math import prod

from kvplan.dtypes import CacheDTypes
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    GenericRecurrent,
    Mamba2,
    RecurrentState,
    Rwkv,
)
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
from kvplan.verify.decode.facts import (
    channels_of,
    column_format,
    columns_of,
    matrix_format,
    matrix_of,
)

WIDTH = 64  # of the residual stream; nothing that is kept depends on it
BATCH = 2  # sequences side by side, so that storage can mix them up
LONGEST_SPAN = 48  # a run crosses it three times
SPAN_BESIDE_STATES = 24  # recurrent states are walked token by token, and their check is quadratic
LONGEST_RUN = 256  # tokens, with room to spare
LONGEST_ENCODER = 64
LARGEST = 2**26  # elements of the largest tensors of one state

# Formats that kvplan.verify.decode.formats spells out.
FORMATS = frozenset((
    "float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "int8", "int4",
    "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head",
    "q8_0", "q4_0", "mxfp8", "mxfp4", "nvfp4",
))  # fmt: skip
PLAIN = frozenset(("float32", "float16", "bfloat16"))


class Unproven(NamedTuple):
    """A state that the proof does not run, and why."""

    kind: str
    why: str


class Cut(NamedTuple):
    """What is run.

    Attributes:
        spec: the model cut down; None when nothing of it can be run.
        said: what was cut, a phrase each.
        unproven: what is left out.
    """

    spec: ModelSpec | None
    said: tuple[str, ...]
    unproven: tuple[Unproven, ...]


def cut(spec: ModelSpec) -> Cut:
    """Cut a model down to what the proof runs."""
    sources = spec.shared_sources()
    indices = _layers(spec, sources)
    unproven: dict[str, Unproven] = {}
    said: list[str] = []
    longest = LONGEST_SPAN
    if any(isinstance(state, RecurrentState) for state in spec.states()):
        longest = SPAN_BESIDE_STATES
    kinds: dict[str, tuple[State, ...]] = {}
    for index in indices:
        name = spec.layers[index]
        if name in kinds:
            continue
        kept = []
        for state in spec.kinds[name]:
            why = _why_not(spec, state, sources.get(index), spec.kinds[name])
            if why is None:
                kept.append(_shortened(state, longest, said))
            else:
                unproven.setdefault(state.kind, Unproven(state.kind, why))
        kinds[name] = tuple(kept)
    run = [index for index in indices if kinds[spec.layers[index]]]
    if not run:
        return Cut(None, (), tuple(unproven.values()))
    said.insert(0, f"{len(run)} of {len(spec.layers)} layers")
    encoder = None
    if any(isinstance(state, CrossAttention) for states in kinds.values() for state in states):
        encoder = min(spec.encoder_tokens or LONGEST_ENCODER, LONGEST_ENCODER)
        if encoder != spec.encoder_tokens:
            said.append(f"an encoder of {encoder} tokens")
    layers, kinds = _renumbered(spec, run, kinds, sources)
    small = spec.replaced(kinds=kinds, layers=layers, draft_layers=(), encoder_tokens=encoder)
    return Cut(small, tuple(dict.fromkeys(said)), tuple(unproven.values()))


def in_float32(spec: ModelSpec) -> ModelSpec:
    """The model with every state of fixed size in float32."""
    kinds = {
        name: tuple(
            state.replaced(dtype="float32", conv_dtype="float32")
            if isinstance(state, RecurrentState)
            else state
            for state in states
        )
        for name, states in spec.kinds.items()
    }
    return spec.replaced(kinds=kinds)


def unknown_formats(spec: ModelSpec, dtypes: CacheDTypes) -> tuple[str, ...]:
    """Names of formats that the model's states would be stored in and the proof cannot write."""
    used = []
    for state in spec.states():
        if isinstance(state, RecurrentState):
            columns = [column_format(state, dtypes)] if columns_of(state) else []
            matrix = [matrix_format(state)] if matrix_of(state) else []
            used += [name for name in (*columns, *matrix) if name not in PLAIN]
        elif not isinstance(state, SharedCache):
            both = (dtypes.k, dtypes.v) if isinstance(state, HeadState) else (dtypes.k,)
            used += [one.name for one in both if one.name not in FORMATS]
    return tuple(dict.fromkeys(used))


def _layers(spec: ModelSpec, sources: dict[int, int]) -> list[int]:
    """The first layer of each kind and the layers these read; the first two of an only kind."""
    first: dict[str, int] = {}
    for index, name in enumerate(spec.layers):
        if spec.kinds[name]:
            first.setdefault(name, index)
    chosen = set(first.values())
    chosen |= {sources[index] for index in chosen if index in sources}
    if len(chosen) == 1:
        chosen |= set([i for i, name in enumerate(spec.layers) if name in first][:2])
    return sorted(chosen)


def beside(states: tuple[State, ...], indexer: Indexer) -> State | None:
    """The attention of a layer that an indexer chooses tokens for; None where there is none."""
    found = [one for one in states if isinstance(one, (FullAttention, LatentAttention))]
    return found[0] if len(found) == 1 and indexer in states else None


def _why_not(
    spec: ModelSpec, state: State, source: int | None, states: tuple[State, ...] = ()
) -> str | None:
    """Why a state is not run; None when it is."""
    if isinstance(state, Indexer):
        if state.ratio > 1:
            return "a spec does not say how tokens are pooled into an indexer key"
        if not beside(states, state):
            return "no attention over the same tokens stands beside it"
    if isinstance(state, CompressedLatent):
        return "a spec does not say how tokens are pooled into a compressed vector"
    if isinstance(state, (GenericRecurrent, Rwkv)):
        return "the recurrence of this kind is not part of the reference transformer"
    if isinstance(state, SharedCache):
        states = spec.kinds[spec.layers[source]] if source is not None else ()
        if not states or not isinstance(states[0], HeadState):
            return "only layers that share the K and V of heads are run"
        return _why_not(spec, states[0], None)
    if isinstance(state, LatentAttention) and not (state.qk_nope_head_dim and state.v_head_dim):
        return "the spec does not give qk_nope_head_dim and v_head_dim"
    if isinstance(state, GatedDeltaNet) and state.v_heads % state.k_heads:
        return f"k_heads {state.k_heads} does not divide v_heads {state.v_heads}"
    if isinstance(state, Mamba2) and state.num_heads % state.n_groups:
        return f"n_groups {state.n_groups} does not divide num_heads {state.num_heads}"
    if isinstance(state, (HeadState, LatentAttention)) and not (state.heads or spec.heads):
        return "the spec does not say how many query heads there are"
    if _elements(spec, state) > LARGEST:
        return f"its tensors are too large for a proof (above {LARGEST:,} elements)"
    return None


def _elements(spec: ModelSpec, state: State) -> int:
    """About as many elements as the largest tensors of this state have together."""
    if isinstance(state, RecurrentState):
        return WIDTH * channels_of(state) + 2 * prod(matrix_of(state) or (0,))
    heads = getattr(state, "heads", None) or spec.heads or 0
    if isinstance(state, Indexer):
        return (5 * WIDTH + LONGEST_RUN) * state.kv_heads * state.head_dim
    if isinstance(state, LatentAttention):
        per_head = (state.qk_nope_head_dim or 0) + (state.v_head_dim or 0)
        rows = state.kv_lora_rank + state.qk_rope_head_dim
        return heads * (rows * per_head + WIDTH * (per_head + state.qk_rope_head_dim))
    assert isinstance(state, HeadState)
    return (WIDTH * heads + 2 * LONGEST_RUN * state.kv_heads) * (state.head_dim + state.value_dim)


def _shortened(state: State, longest: int, said: list[str]) -> State:
    if isinstance(state, SlidingAttention) and state.window > longest:
        said.append(f"a window of {longest:,} tokens for {state.window:,}")
        return state.replaced(window=longest)
    if isinstance(state, ChunkedAttention) and state.chunk > longest:
        said.append(f"a chunk of {longest:,} tokens for {state.chunk:,}")
        return state.replaced(chunk=longest)
    return state


def _renumbered(
    spec: ModelSpec,
    run: list[int],
    kinds: dict[str, tuple[State, ...]],
    sources: dict[int, int],
) -> tuple[tuple[str, ...], dict[str, tuple[State, ...]]]:
    """Layers and kinds as they are numbered among those that are run."""
    names = [spec.layers[index] for index in run]
    found = dict(kinds)
    for index, name in zip(run, names, strict=True):
        if index in sources:
            found[name] = (SharedCache(reads=run.index(sources[index])),)
    return tuple(names), found
