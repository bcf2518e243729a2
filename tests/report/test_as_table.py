"""The tables a person reads, whole."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.layout import CacheLayout, RankLayout, Tensor
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel
from kvplan.plan.explain import explain
from kvplan.plan.size import size
from kvplan.report import as_table
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GenericRecurrent
from kvplan.spec.states import CompressedLatent, CrossAttention, FullAttention, Indexer


def keeps_nothing() -> LoadedModel:
    spec = ModelSpec(name="void", dtype="bf16", max_context=5, kinds={"a": ()}, layers=("a",) * 3)
    return LoadedModel(spec, "void.yaml")


def test_one_model_in_full(model):
    """The total first, then each kind, bytes per token, fixed state and the formula."""
    assert (
        as_table.size([size(model, batch=2)], to_file=True)
        == """\
hybrid-9b: gqa+sliding+hybrid-linear, 9 layers; 8,192 tokens x 2 sequences, bfloat16

   88.13 MiB  logical: what the model must keep (92,411,904 bytes)

kind             layers  entries  one more token  per sequence  share
sliding               6    1,024             0 B     12.00 MiB  27.2%
full                  2    8,192        4.00 KiB     32.00 MiB  72.6%
gated_delta_net       1        1             0 B     67.00 KiB   0.1%

per sequence    44.07 MiB
one more token  4.00 KiB per sequence
fixed state     67.00 KiB per sequence, whatever the context
formula         2 x [6 layers x 1,024 tokens x (2 x 4 kv_heads x 128 head_dim x 2 B) + 2 layers x 8,192 tokens x (2 x 4
                kv_heads x 128 head_dim x 2 B) + 1 layer x 68,608 B state]
"""
    )


def test_several_results_side_by_side(model):
    """One line each; in q8_0 an entry takes 2 x 16 blocks x 34 = 1,088 bytes."""
    results = [size(model, batch=2), size(model, batch=2, dtype="q8_0")]

    assert (
        as_table.size(results, to_file=True)
        == """\
model      dtype     tokens  sequences    logical  per sequence  one more token  fixed state
hybrid-9b  bfloat16   8,192          2  88.13 MiB     44.07 MiB        4.00 KiB    67.00 KiB
hybrid-9b  q8_0       8,192          2  46.88 MiB     23.44 MiB        2.12 KiB    67.00 KiB
"""
    )


def test_draft_layers_are_named_when_they_count(model):
    """One more full layer."""
    spec = model.spec.replaced(draft_layers=("global",))
    text = as_table.size([size(spec, request=Request(with_draft=True))], to_file=True)

    assert text.startswith("hybrid-9b: gqa+sliding+hybrid-linear, 9 layers + 1 of drafts; 8,192")
    assert "\nfull                  3    8,192" in text


def test_layers_one_by_one(model):
    """Each layer's kind, what it keeps and its bytes of one sequence."""
    text = as_table.size([size(model)], to_file=True, per_layer=True)

    assert text.endswith("""

hybrid-9b, bfloat16: bytes of one sequence per layer
layer  kind    keeps                 bytes
    0  local   sliding           2,097,152
    1  local   sliding           2,097,152
    2  local   sliding           2,097,152
    3  global  full             16,777,216
    4  local   sliding           2,097,152
    5  local   sliding           2,097,152
    6  local   sliding           2,097,152
    7  global  full             16,777,216
    8  delta   gated_delta_net      68,608
""")


def test_a_model_that_keeps_nothing():
    """No table of kinds, no share of nothing."""
    assert (
        as_table.size([size(keeps_nothing())], to_file=True)
        == """\
void: none, 3 layers; 5 tokens x 1 sequence, bfloat16

         0 B  logical: what the model must keep (0 bytes)

per sequence    0 B
one more token  0 B per sequence
fixed state     0 B per sequence, whatever the context
formula         0: no layer keeps anything

It keeps nothing of the past: it reads its whole input at once.
"""
    )


def test_an_encoder_needs_no_format():
    """What stores nothing has none, in the table and on the page of `explain`."""
    spec = keeps_nothing().spec.replaced(dtype=None)
    text = as_table.size([size(spec)], to_file=True)

    assert text.startswith("void: none, 3 layers; 5 tokens x 1 sequence\n")
    page = as_table.explain(explain(size(spec)), to_file=True)
    assert "What one sequence of 5 tokens keeps\n" in page


STATE = GenericRecurrent(shape=(4, 8))


def test_a_model_that_keeps_the_same_whatever_the_context_needs_no_context():
    """4 x 8 x 4 B in each of two layers."""
    spec = ModelSpec(name="rec", dtype="bf16", kinds={"a": (STATE,)}, layers=("a",) * 2)
    text = as_table.size([size(spec)], to_file=True)

    assert text.startswith("rec: attention-free, 2 layers; any number of tokens x 1 sequence, bf")
    assert "256 B  logical: what the model must keep (256 bytes)" in text
    assert as_table.size([size(spec, ctx=7)], to_file=True).startswith(
        "rec: attention-free, 2 layers; 7 tokens x"
    )


def test_a_context_is_needed_where_something_follows_it():
    """Attention, or cross attention to an encoder of unknown length."""
    for state in (FullAttention(kv_heads=1, head_dim=8), CrossAttention(kv_heads=1, head_dim=8)):
        spec = ModelSpec(name="x", dtype="bf16", kinds={"a": (STATE, state)}, layers=("a",))
        with pytest.raises(UsageError, match="does not say how long its context is"):
            size(spec)
    known = spec.replaced(encoder_tokens=10)
    assert size(known).logical.bytes == 128 + 10 * 2 * 8 * 2


def test_layers_that_keep_nothing():
    """Said in words."""
    text = as_table.size([size(keeps_nothing())], to_file=True, per_layer=True)

    assert text.endswith("""
layer  kind  keeps    bytes
    0  a     nothing      0
    1  a     nothing      0
    2  a     nothing      0
""")


def test_k_and_v_in_different_formats(model):
    """4 x 128 elements: 544 bytes of K in q8_0 and 288 of V in q4_0, 4 x 128 x 52/32 together."""
    request = Request(dtype_k="q8_0", dtype_v="q4_0")
    text = as_table.size([size(model, request=request)], to_file=True)

    assert "8,192 tokens x 1 sequence, q8_0/q4_0\n" in text
    assert "(4 kv_heads x 128 head_dim x 52/32 B (K 34/32 + V 18/32))" in " ".join(text.split())


def test_a_format_with_scales_shows_them_in_the_formula(model):
    """34 bytes per 32 elements; 4 more bytes per head."""
    blocks = as_table.size([size(model, dtype="q8_0")], to_file=True)
    heads = as_table.size([size(model, dtype="int8_per_token_head")], to_file=True)

    assert "(2 x 4 kv_heads x 128 head_dim x 34/32 B)" in blocks
    assert "(2 x 4 kv_heads x 132 B (128 head_dim x 1 B + 4 B per head))" in " ".join(heads.split())


def test_one_sequence_is_no_factor(model):
    """Brackets stand only behind a batch."""
    one = as_table.size([size(model)], to_file=True)

    assert "formula         6 layers x 1,024 tokens" in one
    assert "[" not in one


def compressed(*states) -> ModelSpec:
    kinds = {str(number): (state,) for number, state in enumerate(states)}
    return ModelSpec(name="v4", dtype="bf16", max_context=1000, kinds=kinds, layers=tuple(kinds))


def test_entries_that_close_now_and_then_have_an_average():
    """1,000 is divided by 4: the next token closes nothing; 1,024 B / 4 + 1,024 B / 128 a token."""
    spec = compressed(
        CompressedLatent(head_dim=512, window=128),
        CompressedLatent(head_dim=512, window=128, ratio=4),
        CompressedLatent(head_dim=512, window=128, ratio=128),
    )
    text = as_table.size([size(spec)], to_file=True)

    assert (
        "one more token  0 B per sequence, on average 264 B: entries close every 4 and 128 tokens\n"
    ) in text
    assert size(spec).logical.bytes_per_token == 0  # exact, as the contract has it
    kinds = re.findall(r"^(compressed_latent.*?)  ", text, re.MULTILINE)
    assert kinds == [
        "compressed_latent, window only", "compressed_latent, ratio 4",
        "compressed_latent, ratio 128",
    ]  # fmt: skip


def test_the_average_of_a_window_that_still_fills():
    """Below the window each token adds a vector too: 1,024 B + 1,024 B / 4 + 256 B / 4."""
    spec = compressed(
        CompressedLatent(head_dim=512, window=128, ratio=4), Indexer(head_dim=128, ratio=4)
    )
    text = as_table.size([size(spec, ctx=10)], to_file=True)

    assert (
        "one more token  1.00 KiB per sequence, on average 1.31 KiB: entries close every 4" in text
    )


def test_a_token_that_always_adds_the_same_has_no_average(model):
    """It would say the figure twice."""
    assert "on average" not in as_table.size([size(model)], to_file=True)


def test_every_warning_is_said_once(model):
    """Of several formats of one model too, under its id."""
    results = [size(model, ctx=9000, dtype=dtype) for dtype in ("bf16", "fp8")]

    assert as_table.size(results, to_file=True).endswith(
        "\n\nwarning: 9,000 tokens is above the 8,192 that hybrid-9b supports [ctx-above-maximum]\n"
    )
    assert as_table.size(results, to_file=True).count("warning:") == 1


def layout(**facts) -> CacheLayout:
    tensor = Tensor(name="pool", shape=(4, 1024), dtype="int8", bytes=4096)
    ranks = (RankLayout(rank=0, tensors=(tensor,)), RankLayout(rank=1, tensors=(tensor, tensor)))
    return CacheLayout(engine="warp", version="9.1", runs=ranks, **facts)


def test_an_engines_figure_stands_under_the_logical_one(model):
    """Bytes over all ranks, the largest rank, and the reasons for the difference."""
    result = size(model)._replace(allocated=layout(reasons=("pages are padded",)))

    assert """
   44.07 MiB  logical: what the model must keep (46,205,952 bytes)
   12.00 KiB  warp 9.1: what it sets aside on 2 ranks, at most 8.00 KiB each (12,288 bytes)
              pages are padded
""" in as_table.size([result], to_file=True)


def test_why_an_engine_refuses(model):
    """In full for one model, in a word side by side."""
    refusal = Refusal(
        code="no-backend", exception="ValueError", message="no kernel for this head", figures={}
    )
    result = size(model)._replace(allocated=layout(refusal=refusal))

    assert "refuses to start: no kernel for this head\n" in as_table.size([result], to_file=True)
    assert "refused (warp 9.1)" in as_table.size([result, result], to_file=True)


def test_the_list_of_models(model):
    """Name, label, layers, context and the first id."""
    assert (
        as_table.models([model.spec, keeps_nothing().spec], to_file=True)
        == """\
model      attention                  layers  context  Hugging Face id
hybrid-9b  gqa+sliding+hybrid-linear       9    8,192  maker/Hybrid-9B
void       none                            3        5

2 models
"""
    )


def test_a_list_of_one_and_of_none(model):
    """In words that fit."""
    assert as_table.models([model.spec], to_file=True).endswith("\n\n1 model\n")
    assert as_table.models([], to_file=True) == "no model matches\n"


def test_one_model_is_its_spec(model):
    """As YAML that can be saved and edited."""
    assert (
        as_table.model(model, to_file=True)
        == """\
# gqa+sliding+hybrid-linear
name: hybrid-9b
hf_ids: [maker/Hybrid-9B]
max_context: 8192
dtype: bfloat16
heads: 16
source: a card
kinds:
  local: {kind: sliding, kv_heads: 4, head_dim: 128, window: 1024}
  global: {kind: full, kv_heads: 4, head_dim: 128}
  delta: {kind: gated_delta_net, conv_kernel: 4, k_heads: 2, k_head_dim: 64, v_heads: 4, v_head_dim: 64}
layers:
  - {repeat: 2, of: [{repeat: 3, of: local}, global]}
  - delta
"""
    )


def test_the_page_of_explain(model):
    """Products factor by factor, variants, and generation with and without a cache.

    As it is 44 MiB of attention with 4 KV heads, windows kept: four times that with 16, a quarter
    with one. The recurrent layer, attending, keeps 8,192 x 2 x 4 x 128 x 2 B = 16 MiB.
    """
    found = explain(size(model, batch=2), [128, 2048])

    assert (
        as_table.explain(found, to_file=True)
        == """\
hybrid-9b: gqa+sliding+hybrid-linear, 9 layers

What one sequence of 8,192 tokens keeps, in bfloat16

sliding window: K and V of the last `window` tokens
               6   layers
x          1,024   tokens held
x              2   K and V
x              4   kv_heads: key/value heads
x            128   head_dim: elements
x            2 B   per element
=     12,582,912   bytes (12.00 MiB)

full attention: K and V of every token
               2   layers
x          8,192   tokens held
x              2   K and V
x              4   kv_heads: key/value heads
x            128   head_dim: elements
x            2 B   per element
=     33,554,432   bytes (32.00 MiB)

gated delta net: convolution columns of q, k, v and one matrix per value head
               1   layer
x       68,608 B   of state: 512 channels x 3 columns x 2 B + 4 x 64 x 64 x 4 B
=         68,608   bytes (67.00 KiB)

      46,205,952   bytes of one sequence (44.07 MiB)
x              2   sequences
      92,411,904   bytes (88.13 MiB)

The same model with another attention, one sequence

                                           bytes  times  what it keeps
as it is (gqa+sliding+hybrid-linear)   44.07 MiB   1.00  what its design keeps
no windows                            128.07 MiB   2.91  each attention layer keeps every token
no recurrent layers                    60.00 MiB   1.36  recurrent layers attend like the others
MHA                                   176.07 MiB   4.00  one K and V per query head
MQA                                    11.07 MiB   0.25  one K and V for all query heads

Attention work to generate n tokens, per head and layer

    n  without a cache  with a cache  ratio (2n + 1)/3  about 2n/3
  128          707,264         8,256             85.67       85.33
2,048    2,865,409,024     2,098,176          1,365.67    1,365.33

sum(t^2) = n(n + 1)(2n + 1)/6 against sum(t) = n(n + 1)/2. The ratio counts attention operations, not seconds, and does
not depend on the model's width: the projections and feed-forward layers of the repeated tokens come on top, and short
steps are bound by memory bandwidth.

The price at decode

Each decode step reads the cache of all 2 sequences once: 88.13 MiB. At 1 TB/s of memory bandwidth that alone takes 0.09
ms, beside the weights; attention that is sparse reads less than it keeps.
"""
    )


def test_an_unknown_variant_is_said_to_be_unknown():
    """A model that does not say its query heads."""
    spec = ModelSpec(
        name="x",
        dtype="bf16",
        kinds={"a": (FullAttention(kv_heads=4, head_dim=8),)},
        layers=("a",),
    )
    text = as_table.explain(explain(size(spec, ctx=10)), to_file=True)

    assert re.search(r"^MHA +not known +one K and V per query head", text, re.MULTILINE)


def test_weights_stand_beside_the_cache(model):
    """When they were asked for."""
    weights = SimpleNamespace(bytes=2048, by_dtype={"bf16": 1024, "fp8": 1024}, source="index")
    text = as_table.size([size(model)._replace(weights=weights)], to_file=True)

    assert "    2.00 KiB  weights (2,048 bytes, index: bf16 1.00 KiB, fp8 1.00 KiB)\n" in text
