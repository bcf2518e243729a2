"""Parameters of a model in groups, each split over the ranks by its own rule.

    embedding, head     vocabulary (padded to 64) x width, over tensor ranks; tied: once
    q, o                width x heads x head size, over tensor ranks
    k, v                width x KV heads x head size, over min(tensor ranks, KV heads)
    latent projections  down: whole on every rank; up and out: over tensor ranks
    mlp, shared         three (or two) matrices, over tensor ranks
    experts             over tensor ranks, with expert parallelism over those of all replicas
    rest                what the model's own total has beyond these: norms, biases, recurrent
                        layers, towers that see and hear

The total is the checkpoint's own where the spec states it; the groups only say how it is divided,
so a formula that misses a bias costs nothing at one rank. Numbers of parameters, no bytes.
"""

from __future__ import annotations

from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec, Sizes
from kvplan.spec.states import HeadState, LatentAttention

_VOCABULARY_STEP = 64  # engines pad the vocabulary (vllm, vocab_parallel_embedding.py)


class Groups(NamedTuple):
    """Parameters of a whole model (draft layers left out), by how they are divided.

    Attributes:
        embedding, head: 0 for a tied head.
        heads: attention projections that are divided over the tensor ranks.
        kv_heads: (KV heads, parameters) of K and V projections.
        whole: attention projections that every rank has whole.
        mlp, shared, experts: feed-forward.
        rest: everything else.
        exact: the sum is the checkpoint's own total.
    """

    embedding: int
    head: int
    heads: int
    kv_heads: tuple[tuple[int, int], ...]
    whole: int
    mlp: int
    shared: int
    experts: int
    rest: int
    exact: bool

    @property
    def attention(self) -> int:
        """All projections of attention."""
        return self.heads + self.whole + sum(count for _, count in self.kv_heads)

    @property
    def total(self) -> int:
        """All parameters."""
        return (
            self.embedding + self.head + self.attention + self.mlp + self.shared + self.experts
            + self.rest
        )  # fmt: skip


def groups_of(spec: ModelSpec) -> Groups | None:
    """The groups of a model; None where neither its sizes nor its total are known."""
    width, vocabulary = spec.hidden_size, spec.vocab_size
    if width is None or vocabulary is None:
        return None if spec.parameters is None else _only_total(spec.parameters)
    sizes = spec.sizes or Sizes()
    padded = -(-vocabulary // _VOCABULARY_STEP) * _VOCABULARY_STEP
    embedding = padded * width
    heads, kv_heads, whole = _attention(spec, sizes, width)
    matrices = sizes.mlp_matrices or 3
    layers = len(spec.layers)
    moe = 0
    if sizes.num_experts:
        moe = min(sizes.moe_layers or layers, layers)
    dense = _dense_layers(spec, layers - moe)
    mlp = dense * matrices * width * (sizes.intermediate_size or 0)
    experts = moe * (sizes.num_experts or 0) * matrices * width * (sizes.moe_intermediate_size or 0)
    shared = moe * matrices * width * (sizes.shared_expert_size or 0)
    kv_total = sum(count for _, count in kv_heads)
    body = heads + kv_total + whole + mlp + experts + shared
    if spec.parameters is None:
        feeds = sizes.intermediate_size or sizes.moe_intermediate_size
        if not feeds or not body or not _fully_read(spec):
            return None
        head = 0 if sizes.head == "tied" else embedding
        return Groups(embedding, head, heads, kv_heads, whole, mlp, shared, experts, 0, False)
    total = spec.parameters
    tied = sizes.head == "tied" or (
        sizes.head is None and body + 2 * embedding > total * 1.01 >= body + embedding
    )
    head = 0 if tied else embedding
    if head and not -0.01 * total < total - embedding - head - body:
        head = 0  # an embedding model has none
    rest = total - embedding - head - body
    if rest >= 0:
        return Groups(embedding, head, heads, kv_heads, whole, mlp, shared, experts, rest, True)
    # More than there is: the formula does not fit this model, so its parts are only proportions.
    room = max(total - embedding - head, 0)

    def part(count: int) -> int:
        return count * room // body

    kv = tuple((n, part(count)) for n, count in kv_heads)
    parts = (part(heads), kv, part(whole), part(mlp), part(shared), part(experts))
    used = sum(p for p in parts if isinstance(p, int)) + sum(count for _, count in kv)
    left = max(total - embedding - head - used, 0)
    if embedding + head > total:
        return _only_total(total)
    return Groups(embedding, head, parts[0], kv, parts[2], parts[3], parts[4], parts[5], left, True)


def _only_total(total: int) -> Groups:
    return Groups(0, 0, 0, (), 0, 0, 0, 0, total, True)


def _dense_layers(spec: ModelSpec, layers: int) -> int:
    """Layers with a dense MLP; some hybrids have them in layers that keep nothing."""
    empty = sum(1 for name in spec.layers if not spec.kinds[name])
    apart = empty and any(spec.kinds[name] for name in spec.layers)
    if apart and spec.model_type in ("nemotron_h", "nemotron"):
        return min(empty, layers)
    return layers


def _fully_read(spec: ModelSpec) -> bool:
    """Every layer is attention of a kind whose projections are known."""
    return all(
        isinstance(state, (HeadState, LatentAttention))
        for states in spec.kinds.values()
        for state in states
    )


def _attention(
    spec: ModelSpec, sizes: Sizes, width: int
) -> tuple[int, tuple[tuple[int, int], ...], int]:
    """Parameters over the heads, over the KV heads, and whole."""
    over_heads = whole = 0
    kv: dict[int, int] = {}
    for _, states, count in spec.counted_kinds():
        for state in states:
            if isinstance(state, LatentAttention):
                up, down = _latent(spec, sizes, state, width)
                over_heads += count * up
                whole += count * down
            elif isinstance(state, HeadState):
                heads = state.heads or spec.heads or state.kv_heads
                k, v = state.head_dim, state.v_head_dim or state.head_dim
                over_heads += count * width * heads * (k + v)
                kv[state.kv_heads] = kv.get(state.kv_heads, 0) + count * width * state.kv_heads * (
                    k + v
                )
    return over_heads, tuple(kv.items()), whole


def _latent(spec: ModelSpec, sizes: Sizes, state: LatentAttention, width: int) -> tuple[int, int]:
    heads = state.heads or spec.heads or 0
    nope, value = state.qk_nope_head_dim or 0, state.v_head_dim or 0
    query = heads * (nope + state.qk_rope_head_dim)
    down = width * (state.kv_lora_rank + state.qk_rope_head_dim)
    up = state.kv_lora_rank * heads * (nope + value) + heads * value * width
    if sizes.q_lora_rank:
        down += width * sizes.q_lora_rank
        up += sizes.q_lora_rank * query
    else:
        up += width * query
    return up, down
