"""What a page multiplies is what is counted, to the byte, for every state and format."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest

from kvplan.dtypes import DTYPES, CacheDTypes
from kvplan.engines.request import Request
from kvplan.plan.size import size
from kvplan.report.formula import formula, parts, state_sum
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet, GenericRecurrent, Mamba2, Rwkv, ShortConvolution
from kvplan.spec.states import CompressedLatent, FullAttention, Indexer, LatentAttention, State

BF16 = DTYPES["bfloat16"]

HEADS = FullAttention(kv_heads=8, head_dim=128)
WIDE = FullAttention(kv_heads=4, head_dim=192, v_head_dim=128)
ODD = FullAttention(kv_heads=1, head_dim=80)  # 80 elements are two and a half blocks of 32
UNEVEN = FullAttention(kv_heads=2, head_dim=80, v_head_dim=64)  # 160 and 128 elements
LATENT = LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64)
STATES = [
    HEADS, WIDE, ODD, UNEVEN, LATENT, CompressedLatent(head_dim=512, window=8, ratio=4),
    Indexer(head_dim=100), Indexer(head_dim=128, kv_heads=2),
]  # fmt: skip


def evaluated(text: str) -> Fraction:
    """The value of `34/32`, or of a sum of products such as `512 channels x 3 columns x 2 B`."""
    total = Fraction(0)
    for term in text.replace(",", "").split(" + "):
        product = Fraction(1)
        for factor in term.split(" x "):
            product *= Fraction(re.match(r"[\d/]+", factor.strip())[0])
        total += product
    return total


def product(found) -> Fraction:
    """All factors multiplied."""
    result = Fraction(1)
    for part in found:
        result *= evaluated(part.value)
    return result


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.kind}-{state.factors}")
def test_the_factors_multiply_to_the_bytes_of_an_entry(state: State) -> None:
    """Each line of the page is one factor, in every pair of formats."""
    for k, v in itertools.product(DTYPES.values(), repeat=2):
        dtypes = CacheDTypes(k, v, BF16)
        found = parts(state, dtypes)

        assert product(found) == state.entry_bytes(dtypes), (k.name, v.name)
        for part in found:
            if re.match(r"\(\d+ (blocks|head_dim|elements)", part.symbol):
                assert evaluated(part.symbol.strip("()")) == evaluated(part.value)


@pytest.mark.parametrize(
    ("state", "k", "v", "shown"),
    [
        (HEADS, "bf16", "bf16", "2 x 8 kv_heads x 128 head_dim x 2 B"),
        (HEADS, "q8_0", "q4_0", "8 kv_heads x 128 head_dim x 52/32 B (K 34/32 + V 18/32)"),
        (HEADS, "bf16", "fp8", "8 kv_heads x 128 head_dim x 3 B (K 2 + V 1)"),
        (HEADS, "q8_0", "bf16", "8 kv_heads x 128 head_dim x 98/32 B (K 34/32 + V 2)"),
        (WIDE, "bf16", "bf16", "4 kv_heads x 320 (head_dim 192 of K + 128 of V) x 2 B"),
        (WIDE, "bf16", "fp8", "4 kv_heads x 512 B (K 192 x 2 + V 128 x 1)"),
        (ODD, "q8_0", "q8_0", "204 B (K 102 in q8_0 + V 102 in q8_0)"),  # 3 blocks of 34 B each
        (
            HEADS, "int8_per_token_head", "int8_per_token_head",
            "2 x 8 kv_heads x 132 B (128 head_dim x 1 B + 4 B per head)",
        ),
        (
            HEADS, "int8_per_token_head", "bf16",
            "3,104 B (K 1,056 in int8_per_token_head + V 2,048 in bfloat16)",
        ),
        (LATENT, "bf16", "bf16", "576 (kv_lora_rank 512 + qk_rope_head_dim 64) x 2 B"),
        (LATENT, "int8_per_token_head", "bf16", "580 B (576 elements x 1 B + 4 B)"),
        (Indexer(head_dim=100), "q8_0", "bf16", "136 B (4 blocks of 32 elements x 34 B)"),
    ],
)  # fmt: skip
def test_an_entry_in_one_line(state: State, k: str, v: str, shown: str) -> None:
    """Widths, heads, formats."""
    spec = ModelSpec(name="x", dtype="bf16", kinds={"a": (state,)}, layers=("a", "a"))
    logical = size(spec, request=Request(ctx=9, dtype_k=k, dtype_v=v)).logical

    assert formula(logical) == f"2 layers x 9 tokens x ({shown})"


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (
            Mamba2(conv_kernel=4, num_heads=128, head_dim=64, state_size=128, n_groups=8),
            "10,240 channels x 3 columns x 2 B + 128 x 64 x 128 x 4 B",
        ),
        (
            GatedDeltaNet(conv_kernel=4, k_heads=16, k_head_dim=128, v_heads=32, v_head_dim=128),
            "8,192 channels x 3 columns x 2 B + 32 x 128 x 128 x 4 B",
        ),
        (ShortConvolution(channels=2048, conv_kernel=3), "2,048 channels x 2 columns x 2 B"),
        (
            Rwkv(hidden_size=4096, head_dim=64),
            "4,096 channels x 2 shifts x 2 B + 64 x 64 x 64 x 4 B",
        ),
        (GenericRecurrent(shape=(4, 8), dtype="bf16"), "4 x 8 x 2 B"),
    ],
)
def test_a_state_is_a_sum_of_bytes(state: State, shown: str) -> None:
    """Columns in the model's format, a matrix in its own."""
    dtypes = CacheDTypes(BF16, BF16, BF16)

    assert state_sum(state, dtypes) == shown
    assert evaluated(shown) == state.entry_bytes(dtypes)
