"""Hypothesis strategies for specs: every kind of state, any layout, names that want quoting."""

from __future__ import annotations

from hypothesis import strategies as st

from kvplan.spec.model import ModelSpec, Rope
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    GenericRecurrent,
    KimiDeltaAttention,
    LightningAttention,
    LinearRecurrentUnit,
    Mamba1,
    Mamba2,
    Rwkv,
    ShortConvolution,
)
from kvplan.spec.states import (
    ChunkedAttention,
    CompressedLatent,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SlidingAttention,
)

counts = st.integers(1, 300)
heads = st.integers(1, 8)
dims = st.sampled_from([1, 16, 64, 80, 128, 192])
maybe = lambda strategy: st.none() | strategy  # noqa: E731  (reads as a type)

_HEADS = {"kv_heads": heads, "head_dim": dims, "v_head_dim": maybe(dims)}
_CONV = {"conv_kernel": st.integers(1, 8), "dtype": maybe(st.sampled_from(["bf16", "fp32"]))}

attention_states = st.one_of(
    st.builds(FullAttention, **_HEADS),
    st.builds(SlidingAttention, **_HEADS, window=counts),
    st.builds(ChunkedAttention, **_HEADS, chunk=counts),
    st.builds(LatentAttention, kv_lora_rank=counts, qk_rope_head_dim=dims),
    st.builds(CompressedLatent, head_dim=dims, window=counts, ratio=maybe(counts)),
    st.builds(Indexer, head_dim=dims, kv_heads=heads, ratio=counts),
)
cross_states = st.builds(CrossAttention, **_HEADS)
fixed_states = st.one_of(
    st.builds(Mamba1, **_CONV, intermediate_size=counts, state_size=counts),
    st.builds(Mamba2, **_CONV, num_heads=heads, head_dim=dims, state_size=dims, n_groups=heads),
    st.builds(
        GatedDeltaNet, **_CONV, k_heads=heads, k_head_dim=dims, v_heads=heads, v_head_dim=dims
    ),
    st.builds(KimiDeltaAttention, **_CONV, num_heads=heads, head_dim=dims),
    st.builds(LightningAttention, num_heads=heads, head_dim=dims),
    st.builds(ShortConvolution, **_CONV, channels=counts),
    st.builds(LinearRecurrentUnit, **_CONV, width=counts),
    st.builds(
        lambda heads, head_dim, shifts: Rwkv(
            hidden_size=heads * head_dim, head_dim=head_dim, token_shifts=shifts
        ),
        heads,
        dims,
        st.integers(1, 3),
    ),
    st.builds(GenericRecurrent, shape=st.lists(counts, min_size=1, max_size=3).map(tuple)),
)
states = attention_states | cross_states | fixed_states
kinds = st.lists(states, max_size=2).map(tuple)

# Text of any kind, and text that YAML reads as something else when it is not quoted.
texts = st.text(max_size=30) | st.sampled_from(
    [
        "", " ", "yes", "No", "null", "~", "true", "off", "1e3", "0x10", "1_000", "1:30", "007",
        "8b", "a: b", "a #b", "#a", "- a", "a,b", "a, b", "[a]", "{a: b}", "'a'", '"a"', "a'b",
        "&a", "*a", "!a", "%a", "@a", "`a`", "a\nb", "a\n\nb", " a ", "a\tb", "é", "模型", "😀",
        "a\u2028b", "a\x85b", "a\x7fb", "\ufeffa", "a\x00b", "2024-01-01", "<<", "=", ".inf", "a:",
        "? a", "| a", "> a", "\\", "\\n", "a \\", "---", "...", "kind", "none",
    ]
)  # fmt: skip
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda text: text.isprintable() and bool(text.strip())
) | st.sampled_from(["yes", "null", "8b", "a: b", "模型-7b", "#1", "a,b", "-", "llama3-8b"])


@st.composite
def specs(draw: st.DrawFn, state_kinds: st.SearchStrategy = kinds, text=texts) -> ModelSpec:
    """A model of up to four kinds of layer in any order."""
    labels = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    layers = draw(st.lists(st.sampled_from(labels), min_size=1, max_size=24).map(tuple))
    draft = draw(st.just(()) | st.lists(st.sampled_from(labels), max_size=3).map(tuple))
    return ModelSpec(
        name=draw(names),
        hf_ids=tuple(draw(st.lists(text, max_size=2))),
        aliases=tuple(draw(st.lists(text, max_size=2))),
        family=draw(maybe(text)),
        parameters=draw(maybe(st.integers(1, 2**50))),
        max_context=draw(maybe(st.integers(1, 2**50))),
        dtype=draw(st.sampled_from(["bfloat16", "float16", "float32"])),
        rope=draw(
            maybe(
                st.builds(
                    Rope,
                    type=text,
                    factor=maybe(st.floats(1e-9, 1e12) | counts),
                    original_max_context=maybe(counts),
                )
            )
        ),
        unsupported_dtypes=draw(st.dictionaries(st.sampled_from(["fp16", "fp8"]), text)),
        source=draw(maybe(text)),
        notes=draw(maybe(text)),
        kinds={label: draw(state_kinds) for label in labels if label in {*layers, *draft}},
        layers=layers,
        draft_layers=draft,
    )
