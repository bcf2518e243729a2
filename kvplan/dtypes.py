"""Every element format a cache can be stored in: one table, with its scale rule and its source.

A format stores elements in blocks: `block_elements` of them take `block_bytes` bytes, scales of the
block included. Formats with one scale per cached vector (per token and head) add `vector_bytes`.
A plain number format is the case of one element per block.
"""

from __future__ import annotations

from kvplan.arithmetic import ceil_div
from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple


class DType(NamedTuple):
    """One element format.

    Attributes:
        name: the name kvplan prints.
        block_elements: elements in one block.
        block_bytes: bytes of one block, its scales included.
        vector_bytes: bytes added for each cached vector (one head of K, or of V, of one token).
        aliases: other spellings that mean the same format.
        source: where the size rule comes from.
    """

    name: str
    block_elements: int
    block_bytes: int
    vector_bytes: int
    aliases: tuple[str, ...]
    source: str

    @property
    def bits(self) -> float:
        """Bits per element, block scales included and scales per vector left out."""
        return self.block_bytes * 8 / self.block_elements

    def vectors_bytes(self, count: int, dim: int) -> int:
        """Bytes of `count` vectors of `dim` elements that one token stores side by side.

        Blocks run along the whole row of `count * dim` elements, as ggml lays a row out; a last
        block that is not full still takes its place.
        """
        blocks = ceil_div(count * dim, self.block_elements)
        return blocks * self.block_bytes + count * self.vector_bytes


_IEEE = "IEEE 754"
_OCP = "OCP Microscaling Formats v1.0: one 8-bit scale per 32 elements"
_GGML = "ggml-common.h block structs (llama.cpp b11434)"
_HEAD = "vLLM 0.33.0: one float32 scale per token and head, for K and for V"

_TABLE = (
    DType("float32", 1, 4, 0, ("fp32", "f32", "float"), _IEEE),
    DType("float16", 1, 2, 0, ("fp16", "f16", "half"), _IEEE),
    DType("bfloat16", 1, 2, 0, ("bf16",), "bfloat16: the upper 16 bits of float32"),
    DType("fp8_e4m3", 1, 1, 0, ("fp8", "float8_e4m3fn", "e4m3", "f8_e4m3", "fp8_e4m3fn"),
          "OCP 8-bit floating point v1.0; scales per tensor live with the weights"),
    DType("fp8_e5m2", 1, 1, 0, ("float8_e5m2", "e5m2", "f8_e5m2"), "OCP 8-bit floating point v1.0"),
    DType("int8", 1, 1, 0, ("i8",), "8-bit integers, scales per tensor not counted"),
    DType("int4", 2, 1, 0, ("i4",), "4-bit integers, scales per tensor not counted"),
    DType("nvfp4", 16, 9, 0, ("fp4",), "NVFP4: 4-bit values, one fp8 scale per 16 elements"),
    DType("mxfp4", 32, 17, 0, (), _OCP),
    DType("mxfp8", 32, 33, 0, (), _OCP),
    DType("int8_per_token_head", 1, 1, 4, (), _HEAD),
    DType("fp8_per_token_head", 1, 1, 4, (), _HEAD),
    DType("int4_per_token_head", 2, 1, 4, (), _HEAD),
    DType("q8_0", 32, 34, 0, (), _GGML),
    DType("q5_1", 32, 24, 0, (), _GGML),
    DType("q5_0", 32, 22, 0, (), _GGML),
    DType("q4_1", 32, 20, 0, (), _GGML),
    DType("q4_0", 32, 18, 0, (), _GGML),
    DType("iq4_nl", 32, 18, 0, (), _GGML),
)  # fmt: skip

DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _TABLE}
_BY_SPELLING = {spelling: dtype for dtype in _TABLE for spelling in (dtype.name, *dtype.aliases)}
SPELLINGS = tuple(_BY_SPELLING)


def find_dtype(text: str) -> DType | None:
    """The format that a spelling names, in any case and with or without `torch.`, else None."""
    return _BY_SPELLING.get(text.strip().lower().removeprefix("torch."))


def parse_dtype(text: str, what: str = "--dtype") -> DType:
    """Read a format name such as `bf16`, `fp8` or `q8_0`.

    Raises:
        UsageError: the name is not in the table.
    """
    dtype = find_dtype(text)
    if dtype is None:
        raise UsageError(
            f"{what} {text!r} is not a known cache format",
            hint=f"{near_dtypes(text)} (or auto)",
        )
    return dtype


def near_dtypes(text: str) -> str:
    """A hint for a format that does not exist: what was probably meant, and what there is."""
    from difflib import get_close_matches

    wanted = text.strip().lower()
    found = [name for name in DTYPES if wanted and name.startswith(wanted)]
    if not found:
        close = get_close_matches(wanted, _BY_SPELLING, n=1, cutoff=0.7)
        found = [_BY_SPELLING[spelling].name for spelling in close]
    near = f"did you mean {' or '.join(found)}? " if 0 < len(found) < 3 else ""
    return f"{near}one of {', '.join(DTYPES)}"


class CacheDTypes(NamedTuple):
    """The formats of one cache: K (and latents, indexers), V, and the model's own.

    The model's own format is what states keep that no cache option reaches: convolution columns,
    and recurrent matrices whose spec names no format.
    """

    k: DType
    v: DType
    model: DType

    @property
    def name(self) -> str:
        """The cache format as reports print it, `K/V` where the two differ."""
        return self.k.name if self.k == self.v else f"{self.k.name}/{self.v.name}"
