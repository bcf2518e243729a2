"""What an importer hands over, and the few shapes that many families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.importers.config.aliases import DRAFT_KEYS
from kvplan.importers.config.facts import Facts
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import MAX_LAYERS
from kvplan.spec.states import ChunkedAttention, FullAttention, SlidingAttention, State

Kinds = dict[str, tuple[State, ...]]


class Layout(NamedTuple):
    """The layers of one model: kind name -> states, one kind name per layer, the draft layers."""

    kinds: Kinds
    layers: tuple[str, ...]
    draft: tuple[str, ...] = ()
    encoder_tokens: int | None = None
    heads: int | None = None


def layer_count(facts: Facts, *keys: str) -> int:
    """The number of layers, at most what a spec can hold."""
    layers = facts.count("layers", *keys)
    if layers > MAX_LAYERS:
        facts.refuse(f"{layers:,} layers are more than any model has", key=facts.names("layers")[0])
    return layers


def kv_heads(facts: Facts, heads: int, *keys: str) -> int:
    """KV heads; one per query head where the class says so and the file says nothing.

    Raises:
        ImportRefused: missing for a class that does not say so, null, or not a divisor of `heads`.
    """
    names = keys or facts.names("kv_heads")
    value = facts.optional("kv_heads", *keys)
    if value is None:
        null = next((key for key in names if facts.stands(key)), None)
        rule = facts.defaults.mha if facts.defaults else None
        if rule is None or (null and not rule.null):
            what = f"{null} is null" if null else f"{names[0]} is missing"
            facts.refuse(
                f"{what}, and {facts.model_type or 'the model type'} does not say what then holds",
                key=null,
                hint=f'write "{names[0]}": {heads} if every query head has its own K and V',
            )
        return int(facts.derive("kv_heads", heads, f"one per query head ({rule.source})"))
    if heads % value:
        key = next((name for name in names if facts.has(name)), names[0])
        facts.refuse(f"{value} KV heads do not divide {heads} attention heads", key=key)
    return value


def head_dim(facts: Facts, heads: int, *keys: str) -> int:
    """Elements of one head: its own key, the class default, or hidden_size / heads.

    Raises:
        ImportRefused: hidden_size is no multiple of the heads.
    """
    value = facts.optional("head_dim", *keys)
    if value is not None:
        return value
    hidden = facts.count("hidden_size")
    null = next((key for key in keys or facts.names("head_dim") if facts.stands(key)), None)
    fixed = facts.defaults.value("head_dim", nested=bool(facts.path)) if facts.defaults else None
    if null and fixed is not None and fixed * heads != hidden:
        facts.refuse(
            f"{null} is null, where the class knows {fixed} and hidden_size / heads is "
            f"{hidden / heads:g}",
            key=null,
            hint=f'write "{null}": the elements of one head, or leave it out for {fixed}',
        )
    if hidden % heads:
        facts.refuse(
            f"hidden_size {hidden} is no multiple of {heads} attention heads",
            hint='write "head_dim": the elements of one head',
        )
    return int(facts.derive("head_dim", hidden // heads, f"hidden_size {hidden} / {heads} heads"))


def full(facts: Facts, *, v_head_dim: int | None = None) -> FullAttention:
    """The state of a full-attention layer under the usual keys."""
    heads = facts.count("heads")
    return FullAttention(
        kv_heads=kv_heads(facts, heads), head_dim=head_dim(facts, heads), v_head_dim=v_head_dim
    )


def sliding(of: FullAttention, window: int) -> SlidingAttention:
    """The same heads with a window."""
    return SlidingAttention(
        kv_heads=of.kv_heads,
        head_dim=of.head_dim,
        v_head_dim=of.v_head_dim,
        heads=of.heads,
        window=window,
    )


def chunked(of: FullAttention, chunk: int) -> ChunkedAttention:
    """The same heads with chunks."""
    return ChunkedAttention(
        kv_heads=of.kv_heads,
        head_dim=of.head_dim,
        v_head_dim=of.v_head_dim,
        heads=of.heads,
        chunk=chunk,
    )


def layer_names(
    facts: Facts, key: str, layers: int, meanings: Mapping[str, str]
) -> tuple[str, ...] | None:
    """One kind name per layer from a list of the file's own words, None without the list.

    Raises:
        ImportRefused: another length than `layers`, or a word that `meanings` does not hold.
    """
    words = facts.texts(key)
    if words is None:
        return None
    facts.length(key, len(words), layers)
    unknown = next((word for word in words if word not in meanings), None)
    if unknown is not None:
        facts.refuse(
            f"{key} holds {unknown!r}, a kind of layer that is not known here",
            key=key,
            hint="write a spec with that kind of layer; known here: " + ", ".join(meanings),
        )
    facts.note("layers by kind", f"{len(words)} entries", facts.origin(key))
    return tuple(meanings[word] for word in words)


def every(
    layers: int, period: int, one: str, others: str, *, at: int | None = None
) -> tuple[str, ...]:
    """`one` on the layers whose index is `at` modulo `period` (the last of each by default)."""
    place = period - 1 if at is None else at
    return tuple(one if index % period == place else others for index in range(layers))


def draft_count(facts: Facts, key: str) -> int | None:
    """The number of draft layers under a key, at most what a spec can hold; None if absent."""
    value = facts.whole(key, least=0)
    if value is not None and value > MAX_LAYERS:
        facts.refuse(f"{key} is {value}, more layers than any model has", key=key)
    return value


def drafts(facts: Facts, kind: str) -> tuple[str, ...]:
    """The extra layers for multi-token prediction, all of one kind."""
    counts = {key: n for key in DRAFT_KEYS if (n := draft_count(facts, key)) is not None}
    for key, value in counts.items():
        if value:
            facts.note("draft_layers", value, facts.origin(key))
        return (kind,) * value
    return ()


def compact(kinds: Kinds, layers: Sequence[str], draft: Sequence[str] = ()) -> Kinds:
    """The kinds that some layer is of."""
    used = {*layers, *draft}
    return {name: states for name, states in kinds.items() if name in used}
