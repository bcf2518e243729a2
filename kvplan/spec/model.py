"""What a whole model keeps: its layers, each of a named kind, and the facts engines ask for.

A `ModelSpec` names its layer kinds once (`kinds`) and lists one kind name per layer (`layers`), so
runs of equal layers cost nothing to reason about: every sum is over kinds, weighted by their
counts. `draft_layers` are the extra layers of a multi-token-prediction head; they count only when
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kvplan.dtypes import find_dtype, near_dtypes
from kvplan.record import Record, doc
from kvplan.spec.states import (
    MAX_VALUE,
    CrossAttention,
    FieldError,
    HeadState,
    SharedCache,
    State,
    check_counts,
)

if TYPE_CHECKING:
    from typing import Any

# What the config of a quantised or tuned copy may say otherwise while its layers stay the same.
VARIANT_FACTS = (
    "model_type", "architecture", "parameters", "active_parameters", "max_context", "dtype",
    "kv_dtype", "quant_method", "vocab_size", "image_attention", "text_attention", "source",
    "notes",
)  # fmt: skip

# More layers than any model has; keeps a `repeat` slip from filling memory.
MAX_LAYERS = 4096


class Rope(Record):
    """The rotary scaling a config declares; engines derive their default length from it."""

    type: str = doc("rope type: linear, dynamic, yarn, llama3, longrope, ...")
    factor: float | None = doc("scaling factor", default=None)
    original_max_context: int | None = doc(
        "context before scaling (original_max_position_embeddings)", default=None
    )

    def __post_init__(self) -> None:
        if self.factor is not None and not 0 < self.factor <= MAX_VALUE:
            raise FieldError(
                "factor", f"factor is {self.factor}, it must be above 0 and at most 2^50"
            )
        check_counts(self)


class Sizes(Record):
    """Sizes from which the number of parameters follows; the cache does not depend on them."""

    intermediate_size: int | None = doc("width of a dense MLP", default=None)
    mlp_matrices: int | None = doc("matrices of an MLP, 3 if not said", default=None)
    num_experts: int | None = doc("routed experts of a layer", default=None)
    num_experts_per_tok: int | None = doc("experts that a token goes through", default=None)
    moe_intermediate_size: int | None = doc("width of one expert", default=None)
    shared_expert_size: int | None = doc(
        "width of what every token goes through beside its experts", default=None
    )
    moe_layers: int | None = doc("layers with experts, all if not said", default=None)
    q_lora_rank: int | None = doc("latent of the queries of MLA", default=None)
    head: str | None = doc("`tied` where the head is the embedding, else `own`", default=None)

    def __post_init__(self) -> None:
        check_counts(self)
        if self.head not in (None, "tied", "own"):
            raise FieldError("head", f"head is {self.head!r}, it must be tied or own")


class ModelSpec(Record):
    """A model as far as its memory is concerned.

    Attributes (beside the documented fields):
        variants: one of the `hf_ids` or `aliases` -> what its own config says otherwise: a
            quantised upload may declare another cache format, a fine-tune another context.
        kinds: kind name -> the states one such layer keeps; () keeps nothing.
        layers: one kind name per layer, in order.

    Raises:
        FieldError: no layers, an unknown kind or format, a count out of range, kv_heads that do
            not divide heads, a shared layer that points nowhere.
    """

    name: str = doc("short, lower-case name: llama3-8b")
    hf_ids: tuple[str, ...] = doc(
        "Hugging Face ids with this very cache, the base first", default=()
    )
    aliases: tuple[str, ...] = doc("further short names", default=())
    family: str | None = doc("models that differ only in size, length or tuning", default=None)
    model_type: str | None = doc("model_type of the text model in config.json", default=None)
    architecture: str | None = doc("class name in config.json (architectures[0])", default=None)
    parameters: int | None = doc(
        "number of parameters, exact where the maker states it", default=None
    )
    active_parameters: int | None = doc(
        "parameters used per token, of a mixture of experts", default=None
    )
    max_context: int | None = doc("longest context the model supports, in tokens", default=None)
    dtype: str | None = doc("the model's own format (torch_dtype)", default=None)
    kv_dtype: str | None = doc("format the checkpoint declares for its KV cache", default=None)
    quant_method: str | None = doc(
        "how the checkpoint's weights are quantised (quant_method)", default=None
    )
    heads: int | None = doc("query heads (num_attention_heads)", default=None)
    hidden_size: int | None = doc("model width", default=None)
    vocab_size: int | None = doc("vocabulary", default=None)
    encoder_tokens: int | None = doc(
        "tokens cross attention keeps, where the model fixes them", default=None
    )
    image_attention: str | None = doc(
        "`bidirectional` where image tokens see each other in both directions", default=None
    )
    text_attention: str | None = doc(
        "`bidirectional` where the file makes a decoder an embedding model: text tokens see each "
        "other in both directions, and an engine that does so keeps nothing",
        default=None,
    )
    rope: Rope | None = doc("rotary scaling", default=None)
    sizes: Sizes | None = doc("sizes of what is no cache", default=None)
    unsupported_dtypes: Mapping[str, str] = doc(
        "formats the maker says the model does not run in, each with the reason",
        default={},
    )
    source: str | None = doc("where the facts come from", default=None)
    notes: str | None = doc("what a reader should know", default=None)
    variants: Mapping[str, Mapping[str, Any]] = {}
    kinds: Mapping[str, tuple[State, ...]]
    layers: tuple[str, ...]
    draft_layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise FieldError("name", f"{self.name!r} is not a name")
        for name in self.kinds:
            if not name.strip() or not name.isprintable():
                raise FieldError("kinds", f"{name!r} is not a name of a kind of layer")
        if not self.layers:
            raise FieldError("layers", "a model needs at least one layer")
        for name in (*self.layers, *self.draft_layers):
            if name not in self.kinds:
                raise FieldError("layers", f"layer kind {name!r} is not defined under kinds")
        check_counts(self)
        for key in ("dtype", "kv_dtype"):
            value = getattr(self, key)
            if value is not None and find_dtype(value) is None:
                raise FieldError(key, f"{key} {value!r} is not a known format", near_dtypes(value))
        for name in self.unsupported_dtypes:
            if find_dtype(name) is None:
                raise FieldError(
                    "unsupported_dtypes", f"{name!r} is not a known format", near_dtypes(name)
                )
        for name in self.variants:
            if name not in (*self.hf_ids, *self.aliases):
                raise FieldError(f"variants.{name}", f"{name!r} is in neither hf_ids nor aliases")
        self._check_heads()
        self.shared_sources()

    def _check_heads(self) -> None:
        for kind, states in self.kinds.items():
            for state in states:
                if not isinstance(state, HeadState) or isinstance(state, CrossAttention):
                    continue
                heads = state.heads or self.heads
                if heads is not None and heads % state.kv_heads:
                    raise FieldError(
                        f"kinds.{kind}.kv_heads",
                        f"kv_heads {state.kv_heads} does not divide heads {heads}",
                    )

    def __repr__(self) -> str:
        return f"ModelSpec({self.name!r}, {len(self.layers)} layers)"

    def called(self, name: str) -> ModelSpec:
        """The model that one of its names means: this one, with what that name's config changes.

        Raises:
            FieldError: the changed facts contradict the others.
        """
        wanted = name.strip().lower()
        for key, facts in self.variants.items():
            if wanted in (key.lower(), key.rpartition("/")[2].lower()):
                return self.replaced(**facts, variants={})
        return self

    def shared_sources(self) -> dict[int, int]:
        """Layer index -> the earlier layer whose cache it reads, for layers that share one.

        Raises:
            FieldError: kinds that read each other, a layer that no earlier layer answers to, or one
                that keeps nothing.
        """
        reads = {
            name: state.reads
            for name, states in self.kinds.items()
            for state in states
            if isinstance(state, SharedCache)
        }
        if not reads:
            return {}
        checked: set[str] = set()
        for name in reads:
            self._check_cycle(name, reads, checked)
        names = (*self.layers, *self.draft_layers)
        sources: dict[int, int] = {}
        nearest: dict[str, int] = {}  # kind name -> last layer of it so far
        for index, kind in enumerate(names):
            if kind in reads:
                target = reads[kind]
                found = nearest.get(target) if isinstance(target, str) else target
                if found is None or found >= index:
                    raise FieldError(
                        f"kinds.{kind}.reads",
                        f"layer {index} reads {target!r}, but no earlier layer is that",
                    )
                if not self.kinds[names[found]]:
                    raise FieldError(
                        f"kinds.{kind}.reads",
                        f"layer {index} reads layer {found}, which keeps nothing",
                    )
                sources[index] = sources.get(found, found)
            nearest[kind] = index
        return sources

    def _check_cycle(self, start: str, reads: Mapping[str, str | int], checked: set[str]) -> None:
        """Follow a shared kind to its end; what is in `checked` was followed, and joins it."""
        path, seen = [start], {start}
        while path[-1] not in checked and isinstance(target := reads.get(path[-1]), str):
            if target not in self.kinds:
                raise FieldError(
                    f"kinds.{path[-1]}.reads", f"{target!r} is not defined under kinds"
                )
            if target in seen:
                circle = " -> ".join((*path, target))
                raise FieldError(f"kinds.{start}.reads", f"shared layers read each other: {circle}")
            path.append(target)
            seen.add(target)
        checked |= seen

    def counted_kinds(
        self, *, with_draft: bool = False
    ) -> Iterator[tuple[str, tuple[State, ...], int]]:
        """Each kind in use once, in order of first use: (name, states, number of layers)."""
        names = (*self.layers, *self.draft_layers) if with_draft else self.layers
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            yield name, self.kinds[name], count

    def states(self) -> Iterator[State]:
        """Every distinct state that some layer keeps (draft layers left out)."""
        for _, states, _ in self.counted_kinds():
            yield from states
