"""Specs as YAML: read back, they are the same model, whatever stands in their texts."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from kvplan.documents.from_yaml import read_yaml
from kvplan.spec.model import ModelSpec, Rope
from kvplan.spec.reader import read_spec
from kvplan.spec.states import FullAttention, Indexer, LatentAttention, SlidingAttention
from kvplan.spec.writer import write_spec
from tests.strategies import specs, texts

PLAIN = ModelSpec(
    name="tiny",
    kinds={"attention": (FullAttention(kv_heads=8, head_dim=128),)},
    layers=("attention",) * 32,
)


def read(text: str) -> ModelSpec:
    return read_spec(read_yaml(text, "spec.yaml"))


def test_a_plain_model_takes_three_lines():
    """The short form: a number of layers and what each keeps."""
    assert write_spec(PLAIN) == (
        "name: tiny\n"
        "layers: 32\n"
        "attention: {kv_heads: 8, head_dim: 128}\n"
    )  # fmt: skip


def test_a_hybrid_names_its_kinds_and_writes_patterns_once():
    """62 layers of five local and one global, the last two local."""
    spec = ModelSpec(
        name="hybrid",
        hf_ids=("maker/hybrid-27b",),
        max_context=131072,
        dtype="bfloat16",
        rope=Rope(type="linear", factor=8.0),
        unsupported_dtypes={"float16": "overflows: see the card"},
        kinds={
            "local": (SlidingAttention(kv_heads=16, head_dim=128, window=1024),),
            "global": (FullAttention(kv_heads=16, head_dim=128),),
            "rest": (),
        },
        layers=(("local",) * 5 + ("global",)) * 10 + ("local",) * 2,
        draft_layers=("rest",),
    )

    text = write_spec(spec, header=["gqa+sliding"], comments={"max_context": "config.json:7:3"})

    assert text == (
        "# gqa+sliding\n"
        "name: hybrid\n"
        "hf_ids: [maker/hybrid-27b]\n"
        "max_context: 131072  # config.json:7:3\n"
        "dtype: bfloat16\n"
        'unsupported_dtypes: {float16: "overflows: see the card"}\n'
        "rope: {type: linear, factor: 8.0}\n"
        "kinds:\n"
        "  local: {kind: sliding, kv_heads: 16, head_dim: 128, window: 1024}\n"
        "  global: {kind: full, kv_heads: 16, head_dim: 128}\n"
        "  rest: {kind: none}\n"
        "layers:\n"
        "  - {repeat: 10, of: [{repeat: 5, of: local}, global]}\n"
        "  - local\n"
        "  - local\n"
        "draft_layers:\n"
        "  - rest\n"
    )
    assert read(text) == spec


def test_several_states_of_a_layer_are_a_list():
    """A latent and its indexer stand side by side, in the short form too."""
    states = (LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64), Indexer(head_dim=128))
    spec = ModelSpec(name="sparse", kinds={"attention": states}, layers=("attention",))

    text = write_spec(spec)

    assert text.splitlines()[-1] == (
        "attention: [{kind: latent, kv_lora_rank: 512, qk_rope_head_dim: 64},"
        " {kind: indexer, head_dim: 128}]"
    )
    assert read(text) == spec


def test_comments_and_headers_stay_comments():
    """A line break in a comment does not begin a line of the spec."""
    text = write_spec(PLAIN, header=["from a\nlayers: 1"], comments={"layers": "two\nlines: 2"})

    assert read(text) == PLAIN


@given(specs())
@example(
    ModelSpec(
        name="x",
        hf_ids=("a b,c", "a,", "a b, c"),
        kinds={"k.v": (FullAttention(kv_heads=1, head_dim=1),)},
        layers=("k.v",),
    )
)
def test_what_is_written_reads_back_as_the_same_model(spec):
    """Every kind of state, every layout, any text."""
    assert read(write_spec(spec)) == spec


@given(texts)
@example("a,b")
@example("word word,")
@example("\u2028")
@example("\x85\x9b\ufeff\x00\x1b[31m")
@example("😀\U0010ffff")
def test_any_text_survives_in_every_place(text):
    """At the top, in a list, and as a value of a mapping in braces; as a key what is a name."""
    kind = text if text.strip() and text.isprintable() else "kind"
    spec = ModelSpec(
        name="x",
        aliases=(text, text),
        notes=text,
        unsupported_dtypes={"fp16": text},
        kinds={kind: (FullAttention(kv_heads=1, head_dim=1),)},
        layers=(kind, kind, kind),
    )

    assert read(write_spec(spec)) == spec


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b31m", "\x7f", "\u202e"])
def test_what_a_terminal_would_obey_is_escaped(text):
    """A spec from elsewhere cannot clear a screen by being shown."""
    spec = ModelSpec(
        name="x", notes=text, kinds={"k": (FullAttention(kv_heads=1, head_dim=1),)}, layers=("k",)
    )

    assert text not in write_spec(spec)


def test_a_kind_that_no_layer_is_of_is_not_written():
    """The reader takes one for a slip."""
    spec = PLAIN.replaced(kinds={**PLAIN.kinds, "other": ()})

    assert "other" not in write_spec(spec)
    assert read(write_spec(spec)).layers == spec.layers
