"""States of fixed size: convolution columns and recurrent matrices, one entry whatever T.

A convolution of kernel K needs the last K - 1 columns of its channels, kept in the model's own
format. A recurrent matrix is float32 unless the spec names another format (`dtype`), because that
is what the families' reference code accumulates in. No cache option (`--dtype`) changes either.

Sharding and padding differ by family, so each family is a type of its own that keeps the family's
dimensions; `recurrent` is for one that has no type here.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from kvplan.dtypes import DTYPES, CacheDTypes, DType, find_dtype, near_dtypes
from kvplan.record import doc
from kvplan.spec.states import MAX_VALUE, FieldError, State
from kvplan.steps import Steps


def _format(field_name: str, name: str | None, otherwise: DType) -> DType:
    """The format a spec names, or the one that holds when it names none."""
    if name is None:
        return otherwise
    dtype = find_dtype(name)
    if dtype is None:
        raise FieldError(field_name, f"{name!r} is not a known format", near_dtypes(name))
    return dtype


_FLOAT32 = DTYPES["float32"]


class RecurrentState(State):
    """Base of the recurrent kinds; one entry is all of a sequence's state in one layer."""

    fixed: ClassVar[bool] = True

    conv_kernel: int | None = doc(
        "width of the convolution; its last conv_kernel - 1 columns are kept", default=None
    )
    dtype: str | None = doc("format of the recurrent matrix; float32 if not given", default=None)
    conv_dtype: str | None = doc(
        "format of the convolution columns; the model's own if not given", default=None
    )

    def check(self) -> None:
        _format("dtype", self.dtype, _FLOAT32)
        _format("conv_dtype", self.conv_dtype, _FLOAT32)
        if self.conv_channels and self.conv_kernel is None and not self.conv_elements:
            raise FieldError("conv_kernel", f"conv_kernel of a {self.kind} state is missing")

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution, 0 without one."""
        raise NotImplementedError

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        """Shape of the recurrent matrix, () without one."""
        raise NotImplementedError

    @property
    def conv_elements(self) -> int:
        """Elements of the kept convolution columns: channels x (kernel - 1)."""
        return self.conv_channels * (self.conv_kernel - 1) if self.conv_kernel else 0

    @property
    def matrix_elements(self) -> int:
        """Elements of the recurrent matrix."""
        return prod(self.matrix_shape) if self.matrix_shape else 0

    def matrix_dtype(self) -> DType:
        """Format of the recurrent matrix."""
        return _format("dtype", self.dtype, _FLOAT32)

    def column_dtype(self, dtypes: CacheDTypes) -> DType:
        """Format of the convolution columns."""
        return _format("conv_dtype", self.conv_dtype, dtypes.model)

    def entry_bytes(self, dtypes: CacheDTypes) -> int:
        conv = (
            self.column_dtype(dtypes).vectors_bytes(1, self.conv_elements)
            if self.conv_elements
            else 0
        )
        matrix = (
            self.matrix_dtype().vectors_bytes(1, self.matrix_elements)
            if self.matrix_elements
            else 0
        )
        return conv + matrix

    def steps(self, encoder_tokens: int | None) -> Steps:
        return Steps(1)

    @property
    def depends_on_context(self) -> bool:
        return False

    @property
    def columns(self) -> tuple[int, str]:
        """The kept columns of each channel: their number, and what they are called."""
        return (self.conv_kernel or 1) - 1, "columns"


class Mamba1(RecurrentState):
    """Mamba: a diagonal state per channel."""

    kind: ClassVar[str] = "mamba1"
    trait: ClassVar[str] = "hybrid-mamba"
    summary: ClassVar[str] = "Mamba state: convolution columns and one state vector per channel"

    intermediate_size: int = doc("channels (expand x hidden_size)")
    state_size: int = doc("state elements per channel (d_state)")

    @property
    def conv_channels(self) -> int:
        return self.intermediate_size

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.intermediate_size, self.state_size)


class Mamba2(RecurrentState):
    """Mamba 2: a matrix per head; the convolution also covers the B and C projections."""

    kind: ClassVar[str] = "mamba2"
    trait: ClassVar[str] = "hybrid-mamba"
    summary: ClassVar[str] = "Mamba 2 state: convolution columns and one matrix per head"

    num_heads: int = doc("state heads")
    head_dim: int = doc("elements per head")
    state_size: int = doc("state elements per head element (d_state)")
    n_groups: int = doc("groups that share B and C")

    @property
    def intermediate_size(self) -> int:
        """Channels of x: num_heads x head_dim."""
        return self.num_heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        return self.intermediate_size + 2 * self.n_groups * self.state_size  # x, B, C

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.num_heads, self.head_dim, self.state_size)


class GatedDeltaNet(RecurrentState):
    """Gated delta net (Qwen3-Next, Qwen3.5 and later): a K x V matrix per value head."""

    kind: ClassVar[str] = "gated_delta_net"
    trait: ClassVar[str] = "hybrid-linear"
    summary: ClassVar[str] = (
        "gated delta net: convolution columns of q, k, v and one matrix per value head"
    )

    k_heads: int = doc("key heads (linear_num_key_heads)")
    k_head_dim: int = doc("elements per key head")
    v_heads: int = doc("value heads (linear_num_value_heads)")
    v_head_dim: int = doc("elements per value head")

    @property
    def conv_channels(self) -> int:
        return 2 * self.k_heads * self.k_head_dim + self.v_heads * self.v_head_dim  # q, k, v

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.v_heads, self.k_head_dim, self.v_head_dim)


class KimiDeltaAttention(RecurrentState):
    """KDA (Kimi Linear, Kimi K3): three convolutions (q, k, v) and a square matrix per head."""

    kind: ClassVar[str] = "kda"
    trait: ClassVar[str] = "hybrid-linear(KDA)"
    summary: ClassVar[str] = (
        "Kimi delta attention: convolution columns of q, k, v and one matrix per head"
    )

    num_heads: int = doc("heads")
    head_dim: int = doc("elements per head")

    @property
    def conv_channels(self) -> int:
        return 3 * self.num_heads * self.head_dim  # q, k, v

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.num_heads, self.head_dim, self.head_dim)


class LightningAttention(RecurrentState):
    """Lightning (linear) attention (MiniMax-01): a square matrix per head, no convolution."""

    kind: ClassVar[str] = "lightning"
    trait: ClassVar[str] = "hybrid-linear"
    summary: ClassVar[str] = "lightning attention: one matrix per head"

    num_heads: int = doc("heads")
    head_dim: int = doc("elements per head")

    @property
    def conv_channels(self) -> int:
        return 0

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.num_heads, self.head_dim, self.head_dim)


class ShortConvolution(RecurrentState):
    """Short convolution (LFM2): only the last columns."""

    kind: ClassVar[str] = "short_conv"
    trait: ClassVar[str] = "hybrid-conv"
    summary: ClassVar[str] = "short convolution: its last columns"

    channels: int = doc("channels of the convolution")

    @property
    def conv_channels(self) -> int:
        return self.channels

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return ()


class LinearRecurrentUnit(RecurrentState):
    """RG-LRU (Griffin, RecurrentGemma): convolution columns and one number per channel."""

    kind: ClassVar[str] = "rg_lru"
    trait: ClassVar[str] = "hybrid-lru"
    summary: ClassVar[str] = "RG-LRU: convolution columns and one number per channel"

    width: int = doc("channels (lru_width)")

    @property
    def conv_channels(self) -> int:
        return self.width

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.width,)


class Rwkv(RecurrentState):
    """RWKV 5 and later: a square matrix per head, and the last token's activations."""

    kind: ClassVar[str] = "rwkv"
    trait: ClassVar[str] = "hybrid-rwkv"
    summary: ClassVar[str] = (
        "RWKV state: one matrix per head and the shifted activations of the last token"
    )

    hidden_size: int = doc("model width")
    head_dim: int = doc("elements per head (head_size)")
    token_shifts: int = doc(
        "activations kept of the last token: time mix and channel mix", default=2
    )

    def check(self) -> None:
        RecurrentState.check(self)
        if self.hidden_size % self.head_dim:
            raise FieldError(
                "head_dim",
                f"head_dim {self.head_dim} does not divide hidden_size {self.hidden_size}",
            )

    @property
    def conv_channels(self) -> int:
        return self.hidden_size

    @property
    def conv_elements(self) -> int:
        return self.token_shifts * self.hidden_size

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return (self.hidden_size // self.head_dim, self.head_dim, self.head_dim)

    @property
    def columns(self) -> tuple[int, str]:
        return self.token_shifts, "shifts"


class GenericRecurrent(RecurrentState):
    """A recurrent state of a family that has no kind of its own: its sizes written out."""

    kind: ClassVar[str] = "recurrent"
    trait: ClassVar[str] = "hybrid-recurrent"
    summary: ClassVar[str] = "recurrent state with its sizes written out"

    channels: int | None = doc("channels of the convolution", default=None)
    shape: tuple[int, ...] = doc("shape of the recurrent matrix", default=())

    def check(self) -> None:
        if any(size < 1 for size in self.shape):
            raise FieldError("shape", f"shape {list(self.shape)} has a size below 1")
        if self.matrix_elements > MAX_VALUE:
            raise FieldError("shape", "shape has more than 2^50 elements")
        if (self.channels is None) != (self.conv_kernel is None):
            raise FieldError("channels", "channels and conv_kernel come together")
        RecurrentState.check(self)
        if not self.shape and self.channels is None:
            raise FieldError("shape", "neither a shape nor a convolution: the layer keeps nothing")

    @property
    def conv_channels(self) -> int:
        return self.channels or 0

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        return self.shape
