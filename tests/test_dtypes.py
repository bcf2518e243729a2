"""Element formats: bytes of cached vectors, scales included, each size written out."""

from __future__ import annotations

import pytest

from kvplan.dtypes import DTYPES, find_dtype, parse_dtype
from kvplan.errors import UsageError

# bits per element, scales per block included: (values x bits + scale bits) / values
BITS = {
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "int4": 4,
    "nvfp4": 4.5,  # (16 x 4 + 8) / 16
    "mxfp4": 4.25,  # (32 x 4 + 8) / 32
    "mxfp8": 8.25,  # (32 x 8 + 8) / 32
    "int8_per_token_head": 8,
    "fp8_per_token_head": 8,
    "int4_per_token_head": 4,
    "q8_0": 8.5,  # 34 bytes of 32: (32 x 8 + 16) / 32
    "q5_1": 6.0,  # 24 bytes
    "q5_0": 5.5,  # 22 bytes
    "q4_1": 5.0,  # 20 bytes
    "q4_0": 4.5,  # 18 bytes
    "iq4_nl": 4.5,  # 18 bytes
}

# one token of 8 heads of 128 elements = 1,024 elements
ROW = {
    "float32": 4096,
    "float16": 2048,
    "bfloat16": 2048,
    "fp8_e4m3": 1024,
    "fp8_e5m2": 1024,
    "int8": 1024,
    "int4": 512,
    "nvfp4": 576,  # 64 blocks of 16: 8 bytes of values and 1 of scale
    "mxfp4": 544,  # 32 blocks of 32: 16 + 1
    "mxfp8": 1056,  # 32 blocks of 32: 32 + 1
    "int8_per_token_head": 1056,  # 1,024 + 8 heads x 4 bytes
    "fp8_per_token_head": 1056,
    "int4_per_token_head": 544,  # 512 + 8 heads x 4 bytes
    "q8_0": 1088,  # 32 blocks x 34
    "q5_1": 768,  # 32 x 24
    "q5_0": 704,  # 32 x 22
    "q4_1": 640,  # 32 x 20
    "q4_0": 576,  # 32 x 18
    "iq4_nl": 576,
}


def test_every_format_has_its_bits_and_bytes_written_out_here():
    """A format that is added must be added to the two tables of this file."""
    assert set(DTYPES) == set(BITS) == set(ROW)


@pytest.mark.parametrize("name", BITS)
def test_bits_per_element_count_the_scales_of_a_block(name):
    """Scales per vector are left out, because they depend on the vector's length."""
    assert DTYPES[name].bits == BITS[name]


@pytest.mark.parametrize("name", ROW)
def test_bytes_of_one_row_of_eight_heads(name):
    """8 vectors of 128 elements side by side."""
    assert DTYPES[name].vectors_bytes(8, 128) == ROW[name]


def test_a_scale_per_token_and_head_counts_heads_not_elements():
    """One head of 64: 64 + 4 bytes; sixteen: 16 x (64 + 4)."""
    dtype = DTYPES["int8_per_token_head"]

    assert dtype.vectors_bytes(1, 64) == 68
    assert dtype.vectors_bytes(16, 64) == 1088


def test_blocks_run_along_the_whole_row():
    """Two heads of 80 are 160 elements: 5 blocks of 32 (90 bytes), not 2 x 3 blocks."""
    assert DTYPES["q4_0"].vectors_bytes(2, 80) == 90


def test_a_last_block_that_is_not_full_still_takes_its_place():
    """One head of 80 is 2.5 blocks of 32: 3 x 34 bytes. One int4 element takes a byte."""
    assert DTYPES["q8_0"].vectors_bytes(1, 80) == 102
    # 3 heads of 65 are 195 elements side by side: 98 bytes, not 3 x 33.
    assert DTYPES["int4"].vectors_bytes(3, 65) == 98
    assert DTYPES["int4"].vectors_bytes(1, 1) == 1


def test_sizes_are_integers_for_absurd_counts_too():
    """No float is on the way: 2^40 heads of 2^40 elements of 18/32 byte."""
    assert DTYPES["q4_0"].vectors_bytes(2**40, 2**40) == 18 * 2**75


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("bf16", "bfloat16"),
        ("BF16", "bfloat16"),
        (" torch.bfloat16 ", "bfloat16"),
        ("half", "float16"),
        ("fp16", "float16"),
        ("f32", "float32"),
        ("fp8", "fp8_e4m3"),
        ("float8_e4m3fn", "fp8_e4m3"),
        ("e5m2", "fp8_e5m2"),
        ("fp4", "nvfp4"),
        ("Q8_0", "q8_0"),
        ("IQ4_NL", "iq4_nl"),
    ],
)
def test_a_format_answers_to_its_usual_spellings(spelling, name):
    """In any case, with or without `torch.` in front."""
    assert parse_dtype(spelling).name == name


def test_no_two_formats_share_a_spelling():
    """Every spelling means one format."""
    spellings = [word for dtype in DTYPES.values() for word in (dtype.name, *dtype.aliases)]

    assert len(spellings) == len(set(spellings))


def test_every_format_names_its_source():
    """A size rule without a source is a guess."""
    assert all(dtype.source for dtype in DTYPES.values())


@pytest.mark.parametrize("text", ["", "auto", "fp7", "bf16,fp8", "q8", "float64", "bf 16"])
def test_an_unknown_format_is_refused_with_the_known_ones(text):
    """`auto` is no format: it asks for the model's own."""
    assert find_dtype(text) is None
    with pytest.raises(UsageError, match=r"--dtype-k .* is not a known cache format") as caught:
        parse_dtype(text, "--dtype-k")

    assert "bfloat16, fp8_e4m3" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("q8", "did you mean q8_0? one of float32, "),
        ("Q4", "did you mean q4_1 or q4_0? one of"),
        ("bf17", "did you mean bfloat16? one of"),
        ("int8_per", "did you mean int8_per_token_head? one of"),
        ("", "one of float32, "),
        ("zzz", "one of float32, "),
    ],
)
def test_the_hint_names_what_was_probably_meant(text, begins):
    """What begins so, else what is close; always all there are."""
    with pytest.raises(UsageError) as caught:
        parse_dtype(text)

    assert caught.value.hint.startswith(begins)
