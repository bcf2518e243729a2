"""What a layer can keep of the past: one frozen type per kind of state.

Each kind answers two questions: how many bytes is one entry (given the formats), and by which steps
entries are added (`steps`, from which `entries` after T tokens follow). Everything else is a sum.

    full         kv_heads x (head_dim + v_head_dim)      T
    sliding      same                                    min(T, window)
    chunked      same                                    min(T, chunk), the peak before a chunk ends
    latent       kv_lora_rank + qk_rope_head_dim         T            one vector, no factor 2
    compressed   head_dim                                min(T, window) + floor(T / ratio)
    indexer      heads x head_dim                        floor(T / ratio)
    cross        kv_heads x (head_dim + v_head_dim)      encoder tokens, whatever T
    shared       0: it reads the cache of an earlier layer
    (recurrent kinds, one entry whatever T: see kvplan.spec.recurrent)

Units: bytes and tokens, integers. The field names are the keys of a spec YAML; the `doc` of a field
is its description in the published JSON Schema.
"""

from __future__ import annotations

from typing import ClassVar

from kvplan.dtypes import CacheDTypes
from kvplan.errors import SpecError
from kvplan.named_tuple import NamedTuple
from kvplan.record import Record, doc
from kvplan.steps import Step, Steps

# Far above any count in any model; keeps sums of hostile specs printable.
MAX_VALUE = 2**50


class Factor(NamedTuple):
    """One factor of a product: its value, how a formula writes it, and what it is in words."""

    value: int
    symbol: str
    meaning: str


class FieldError(SpecError):
    """A value that its field cannot take; the reader adds the place it stands."""

    def __init__(self, field_name: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field_name


def check_counts(owner: Record) -> None:
    """Raise FieldError when an integer field of a record is outside 1 .. MAX_VALUE."""
    for item in owner.fields():
        value = getattr(owner, item.name)
        if isinstance(value, int) and not 1 <= value <= MAX_VALUE:
            limit = "at least 1" if value < 1 else "at most 2^50"
            raise FieldError(item.name, f"{item.name} is {value}, it must be {limit}")


class State(Record):
    """Base of all kinds. Every integer field lies in 1 .. MAX_VALUE.

    Raises:
        FieldError: a count out of range, or counts that contradict each other.
    """

    kind: ClassVar[str]  # its name in a spec
    summary: ClassVar[str]
    trait: ClassVar[str] = ""  # what it adds to a model's attention label
    entry_name: ClassVar[str] = "tokens held"
    fixed: ClassVar[bool] = False  # one entry per sequence, whatever the number of tokens

    def __post_init__(self) -> None:
        check_counts(self)
        self.check()

    def check(self) -> None:
        """Raise FieldError when fields contradict each other."""

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        """Bytes of one entry."""
        raise NotImplementedError

    def steps(self, encoder_tokens: int | None) -> Steps:
        """Entries one sequence holds, by its tokens; an encoder of None has as many as those."""
        raise NotImplementedError

    def entries(self, tokens: int, encoder_tokens: int) -> int:
        """Entries one sequence holds after `tokens` tokens."""
        return self.steps(encoder_tokens).at(tokens)

    @property
    def depends_on_context(self) -> bool:
        """False for a state whose size is the same whatever the number of tokens."""
        return True

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The elements of one entry as a product, one factor each; () where it is a sum."""
        return ()

    @property
    def detail(self) -> str:
        """What tells this state from others of its kind in one model, "" where its counts do."""
        return ""

    @property
    def period(self) -> int:
        """Tokens after which entries are added the same way again."""
        return 1


class HeadState(State):
    """A K and a V vector per KV head: MHA, GQA and MQA are the same kind with other counts."""

    kv_heads: int = doc("number of key/value heads (num_key_value_heads)")
    head_dim: int = doc("elements of one K vector")
    v_head_dim: int | None = doc("elements of one V vector, where it differs", default=None)
    heads: int | None = doc(
        "query heads of this kind, where they differ from the model's", default=None
    )

    def check(self) -> None:
        if self.heads is not None and self.heads % self.kv_heads:
            raise FieldError(
                "kv_heads", f"kv_heads {self.kv_heads} does not divide heads {self.heads}"
            )

    @property
    def value_dim(self) -> int:
        """Elements of one V vector."""
        return self.v_head_dim or self.head_dim

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(self.kv_heads, self.head_dim) + dtypes.v.vectors_bytes(
            self.kv_heads, self.value_dim
        )

    @property
    def factors(self) -> tuple[Factor, ...]:
        heads = Factor(self.kv_heads, "kv_heads", "key/value heads")
        if self.value_dim == self.head_dim:
            return (Factor(2, "", "K and V"), heads, Factor(self.head_dim, "head_dim", "elements"))
        both = f"head_dim {self.head_dim} of K + {self.value_dim} of V"
        return (heads, Factor(self.head_dim + self.value_dim, f"({both})", both))


class FullAttention(HeadState):
    """Every token is kept."""

    kind: ClassVar[str] = "full"
    summary: ClassVar[str] = "full attention: K and V of every token"

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1),))


class SlidingAttention(HeadState):
    """Only the last `window` tokens are kept."""

    kind: ClassVar[str] = "sliding"
    trait: ClassVar[str] = "sliding"
    summary: ClassVar[str] = "sliding window: K and V of the last `window` tokens"

    window: int = doc("tokens in the window")

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1, cap=self.window),))


class ChunkedAttention(HeadState):
    """Tokens are kept until their chunk ends; the figure is the peak just before that."""

    kind: ClassVar[str] = "chunked"
    trait: ClassVar[str] = "chunked"
    summary: ClassVar[str] = "chunked local attention: K and V of the current chunk, at its peak"

    chunk: int = doc("tokens in one chunk (attention_chunk_size)")

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1, cap=self.chunk),))


class CrossAttention(HeadState):
    """K and V of the encoder's output (or of an image), computed once per request."""

    kind: ClassVar[str] = "cross"
    entry_name: ClassVar[str] = "encoder tokens held"
    summary: ClassVar[str] = "cross attention: K and V of the encoder's tokens"

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1),)) if encoder_tokens is None else Steps(encoder_tokens)

    @property
    def depends_on_context(self) -> bool:
        return False


class LatentAttention(State):
    """MLA: one compressed vector and one rotary key per token, shared by all heads."""

    kind: ClassVar[str] = "latent"
    summary: ClassVar[str] = "latent attention (MLA): one latent and one rotary key per token"

    kv_lora_rank: int = doc("elements of the latent")
    qk_rope_head_dim: int = doc("elements of the rotary key")
    qk_nope_head_dim: int | None = doc(
        "K elements per head without rotation, when decompressed", default=None
    )
    v_head_dim: int | None = doc("V elements per head, when decompressed", default=None)
    heads: int | None = doc(
        "query heads of this kind, where they differ from the model's", default=None
    )

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(1, self.kv_lora_rank + self.qk_rope_head_dim)

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1),))

    @property
    def factors(self) -> tuple[Factor, ...]:
        both = f"kv_lora_rank {self.kv_lora_rank} + qk_rope_head_dim {self.qk_rope_head_dim}"
        return (Factor(self.kv_lora_rank + self.qk_rope_head_dim, f"({both})", both),)


class CompressedLatent(State):
    """DeepSeek V4: K = V = one vector per token in a window, and one per `ratio` tokens beyond."""

    kind: ClassVar[str] = "compressed_latent"
    trait: ClassVar[str] = "compressed-kv"
    entry_name: ClassVar[str] = "vectors held: the window, and one per `ratio` tokens"
    summary: ClassVar[str] = "compressed latent: a window of vectors, and one per `ratio` tokens"

    head_dim: int = doc("elements of one vector, used as K and as V")
    window: int = doc("tokens kept uncompressed")
    ratio: int | None = doc(
        "tokens that one compressed vector stands for; absent: window only", default=None
    )
    heads: int | None = doc(
        "query heads of this kind, where they differ from the model's", default=None
    )

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(1, self.head_dim)

    @property
    def detail(self) -> str:
        return f"ratio {self.ratio}" if self.ratio else "window only"

    @property
    def period(self) -> int:
        return self.ratio or 1

    def steps(self, encoder_tokens: int | None) -> Steps:
        window = Step(1, cap=self.window)
        return Steps(0, (window, Step(1, self.ratio)) if self.ratio else (window,))

    @property
    def factors(self) -> tuple[Factor, ...]:
        return (Factor(self.head_dim, "head_dim", "elements, used as K and as V"),)


class Indexer(State):
    """The keys with which sparse attention chooses the tokens it reads."""

    kind: ClassVar[str] = "indexer"
    entry_name: ClassVar[str] = "tokens held, or groups of `ratio` tokens"
    summary: ClassVar[str] = (
        "indexer of sparse attention: one key per token (or per `ratio` tokens)"
    )

    head_dim: int = doc("elements of one indexer key (index_head_dim)")
    kv_heads: int = doc("indexer keys per token", default=1)
    ratio: int = doc("tokens that one indexer key stands for", default=1)

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        return dtypes.k.vectors_bytes(self.kv_heads, self.head_dim)

    @property
    def detail(self) -> str:
        return f"ratio {self.ratio}" if self.ratio > 1 else ""

    @property
    def period(self) -> int:
        return self.ratio

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(0, (Step(1, self.ratio),))

    @property
    def factors(self) -> tuple[Factor, ...]:
        size = Factor(self.head_dim, "index_head_dim", "elements of an indexer key")
        return (
            (Factor(self.kv_heads, "keys", "indexer keys"), size) if self.kv_heads > 1 else (size,)
        )


class SharedCache(State):
    """Nothing of its own: the layer reads what an earlier layer keeps."""

    kind: ClassVar[str] = "shared"
    summary: ClassVar[str] = "shared: reads the cache of an earlier layer"

    reads: str | int = doc("the kind whose nearest earlier layer is read, or a layer's index")

    def __post_init__(self) -> None:
        # A layer index may be 0, unlike every count.
        if isinstance(self.reads, int) and self.reads < 0:
            raise FieldError("reads", f"reads is {self.reads}, layers are counted from 0")

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        return 0

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps()

    @property
    def depends_on_context(self) -> bool:
        return False
