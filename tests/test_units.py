"""Tokens and bytes, read and printed."""

from __future__ import annotations

import pytest

from kvplan.errors import UsageError
from kvplan.units import (
    format_bytes,
    format_count,
    format_tokens,
    parse_bytes,
    parse_count,
    parse_tokens,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1", 1),
        ("4096", 4096),
        ("131,072", 131072),
        ("131_072", 131072),
        ("1,048,576", 1048576),
        ("128k", 131072),  # 128 x 1024
        ("128K", 131072),
        (" 128 k ", 131072),
        ("1m", 1048576),  # 1024^2
        ("0.5k", 512),
        ("1.5k", 1536),
        ("1g", 1073741824),  # 1024^3
        ("1024g", 1099511627776),  # 2^40, the largest
        ("007", 7),
    ],
)
def test_token_counts_are_digits_with_binary_suffixes(text, tokens):
    """`k`, `m` and `g` are 1024, 1024^2 and 1024^3 in either case; separators part thousands."""
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "k", "-1", "+1", "12x", "1e3", "1e30", "0x10", "1 2", "1.k", ".5k", "1..5k",
        "nan", "inf", "١٢٨", "\uff11\uff12\uff18", "1²", "128kk", "128ki", "128 KiB", "1,5",
        "1,5k", "12,34", "1234,567", ",123", "1,", "1,,000", "_1", "1_",
    ],
)  # fmt: skip
def test_what_is_no_token_count_is_refused_with_an_example(text):
    """Signs, exponents, other units and digits and stray separators are errors, never a guess."""
    with pytest.raises(UsageError, match="is not a number of tokens") as caught:
        parse_tokens(text)

    assert "128k (= 131,072)" in caught.value.hint


@pytest.mark.parametrize("text", ["0", "0k", "1025g", "2000g", "9" * 20, "9" * 5000])
def test_token_counts_stay_between_one_and_two_to_the_forty(text):
    """Zero and absurd lengths are refused, however many digits they have."""
    with pytest.raises(UsageError, match="outside 1"):
        parse_tokens(text)


@pytest.mark.parametrize("text", ["0.3k", "1.0001k", "1.5", "0.5"])
def test_a_part_of_a_token_is_refused(text):
    """0.3 x 1024 = 307.2 is no number of tokens."""
    with pytest.raises(UsageError, match="not a whole number of tokens"):
        parse_tokens(text)


def test_an_error_names_the_option_it_is_about():
    """The same reader serves several options."""
    with pytest.raises(UsageError, match=r"^--encoder-tokens '0' is outside"):
        parse_tokens("0", "--encoder-tokens")


@pytest.mark.parametrize(("text", "count"), [("1", 1), (" 32 ", 32), ("1,024", 1024)])
def test_counts_are_plain_whole_numbers(text, count):
    """A batch size or a number of ranks has no suffix."""
    assert parse_count(text, "--batch") == count


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1.5", "1k", "٣", "²", "one", "1,5", "true"])
def test_what_is_no_count_is_refused(text):
    """Anything but digits is an error that names the option."""
    with pytest.raises(UsageError, match=r"^--batch .* is not a positive whole number"):
        parse_count(text, "--batch")


@pytest.mark.parametrize("text", ["0", "000", "1099511627777", "9" * 5000])
def test_counts_stay_between_one_and_two_to_the_forty(text):
    """2^40 + 1 = 1,099,511,627,777 is the first that is refused."""
    with pytest.raises(UsageError, match=r"outside 1 \.\. 2\^40"):
        parse_count(text, "--batch")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("42949672960", 42949672960),
        ("42,949,672,960", 42949672960),
        ("40GiB", 42949672960),  # 40 x 1024^3
        ("40GB", 40000000000),  # 40 x 1000^3
        ("80 gb", 80000000000),
        ("1.5KiB", 1536),
        ("0.1KiB", 102),  # 102.4
        ("3tib", 3298534883328),  # 3 x 1024^4
        ("7B", 7),
    ],
)
def test_byte_sizes_take_their_unit_in_full(text, size):
    """GiB is binary, GB is decimal, in any case; a part of a byte is dropped."""
    assert parse_bytes(text, "--available-memory") == size


@pytest.mark.parametrize("text", ["40G", "40 g", "40M", "GiB", "-1", "1e9", "40Gibibytes", ""])
def test_a_bare_letter_is_no_unit_of_bytes(text):
    """Tools disagree about `40G`, so it is refused with both readings shown."""
    with pytest.raises(UsageError, match="is not a size in bytes") as caught:
        parse_bytes(text, "--available-memory")

    assert "40GiB (1024^3), 40GB (1000^3)" in caught.value.hint


@pytest.mark.parametrize("text", ["0", "0.5", "2000000000TiB", "9" * 5000])
def test_byte_sizes_stay_between_one_byte_and_two_to_the_seventy(text):
    """Nothing and the absurd are refused."""
    with pytest.raises(UsageError, match=r"outside 1 \.\. 2\^70 bytes"):
        parse_bytes(text, "--margin")


def test_nothing_is_a_size_where_it_may_be():
    """`least=0` lets an engine's own figure of 0 bytes through."""
    assert parse_bytes("0", "--available-memory", least=0) == 0
    assert parse_bytes("-1.5KiB", "--available-memory", least=-(2**40)) == -1536
    with pytest.raises(UsageError, match="not a size in bytes"):
        parse_bytes("-1", "--margin")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (131072, "128.00 KiB"),
        (11173625856, "10.41 GiB"),  # 11,173,625,856 / 1,073,741,824 = 10.406
        (549755813888, "512.00 GiB"),
        (1024**4, "1.00 TiB"),
        (5000 * 1024**4, "5,000.00 TiB"),
    ],
)
def test_bytes_are_printed_in_binary_units_with_two_decimals(count, text):
    """The largest unit that keeps a whole one."""
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 layers"), (1, "1 layer"), (2, "2 layers"), (4096, "4,096 layers")]
)
def test_things_are_counted_in_words(count, text):
    """One of them has no plural."""
    assert format_count(count, "layer") == text


def test_tokens_are_printed_in_full():
    """131072 reads 131,072."""
    assert format_tokens(131072) == "131,072"
