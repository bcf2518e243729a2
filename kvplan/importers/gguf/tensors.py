"""Tensor infos of a GGUF header, and the bytes of the weights that follow from them.

ggml stores a tensor in blocks along its first dimension: `elements / block_elements` blocks of
`block_bytes` each, scales included. The table is the one of the gguf package 0.19.0
(`constants.py`, GGMLQuantizationType and GGML_QUANT_SIZES). A type number outside it has unknown
bytes: numbers 4, 5, 31 to 33 and 36 to 38 belonged to removed types, higher ones to newer builds.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.importers.gguf.values import Budget, Cursor, shown

# ggml type number: (name, elements of a block, bytes of a block)
GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

MAX_DIMENSIONS = 4  # ggml.h GGML_MAX_DIMS
_MAX_ELEMENTS = 2**63 - 1  # ggml counts elements in int64


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor as the header describes it.

    Attributes:
        name: its name, unique in the model.
        shape: dimensions in ggml's order, the one whose elements lie side by side first.
        ggml_type: number of the storage type.
        offset: bytes from the start of the data section of its part.
        nbytes: bytes of the stored tensor without padding, None if the type is unknown.
        part: index of the file that holds it, 0 unless the model is split.
    """

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int
    nbytes: int | None
    part: int = 0

    @property
    def type_name(self) -> str:
        """The type's name, "unknown type N" outside the table."""
        if self.ggml_type in GGML_TYPES:
            return GGML_TYPES[self.ggml_type][0]
        return f"unknown type {self.ggml_type}"


def read_tensor_infos(
    cursor: Cursor, count: int, *, part: int, seen: set[str], budget: Budget
) -> list[TensorInfo]:
    """Read `count` tensor infos of one part; `seen` collects the names of all parts.

    Raises:
        GgufError: bytes beyond the file, a name twice, or a shape that its type cannot hold.
    """
    if count > budget.tensors:
        cursor.fail(f"the header claims {count} tensors, beyond the limit", at=8)
    budget.tensors -= count
    infos = []
    for _ in range(count):
        start = cursor.pos
        name = cursor.name("a tensor name")
        tensor = f"the tensor {shown(name)}"
        if name in seen:
            cursor.fail(f"{tensor} is there twice", at=start)
        seen.add(name)
        dimensions = cursor.u32(f"the dimension count of {tensor}")
        if dimensions > MAX_DIMENSIONS:
            cursor.fail(
                f"{tensor} has {dimensions} dimensions, ggml knows at most {MAX_DIMENSIONS}",
                at=cursor.pos - 4,
            )
        shape = tuple(cursor.u64(f"a dimension of {tensor}") for _ in range(dimensions))
        ggml_type = cursor.u32(f"the type of {tensor}")
        offset = cursor.u64(f"the data offset of {tensor}")
        nbytes = _stored_bytes(cursor, tensor, shape, ggml_type, at=start)
        infos.append(
            TensorInfo(
                name=name,
                shape=shape,
                ggml_type=ggml_type,
                offset=offset,
                nbytes=nbytes,
                part=part,
            )
        )
    return infos


def _stored_bytes(
    cursor: Cursor, tensor: str, shape: tuple[int, ...], ggml_type: int, *, at: int
) -> int | None:
    elements = 1
    for dimension in shape:
        elements *= dimension
    if elements > _MAX_ELEMENTS:
        cursor.fail(f"{tensor} of shape {shape} has more elements than ggml can count", at=at)
    if ggml_type not in GGML_TYPES:
        return None
    type_name, block_elements, block_bytes = GGML_TYPES[ggml_type]
    row = shape[0] if shape else 1
    if row % block_elements:
        cursor.fail(
            f"{tensor} has rows of {row} elements, {type_name} needs blocks of {block_elements}",
            at=at,
        )
    return elements // block_elements * block_bytes
