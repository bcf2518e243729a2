"""What is run of a large model: each kind of layer, its entries whole; what was cut is said."""

from __future__ import annotations

from kvplan import load_model
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import SharedCache, SlidingAttention
from kvplan.verify.decode.cut import cut

from .small_specs import CROSS, GATED, GQA, WINDOW, model


def test_entries_are_never_cut() -> None:
    """Of 61 equal layers two are run, with all 128 heads and the whole latent."""
    spec = load_model("deepseek-v3").spec

    small = cut(spec)

    assert small.spec is not None
    assert len(small.spec.layers) == 2
    assert set(small.spec.states()) == set(spec.states())
    assert small.spec.heads == 128
    assert small.said == ("2 of 61 layers",)


def test_one_layer_of_each_kind() -> None:
    """Windows and full layers in the model's order."""
    small = cut(model(WINDOW, GQA).replaced(layers=("kind0", "kind0", "kind1", "kind0"))).spec

    assert small is not None
    assert small.layers == ("kind0", "kind1")


def test_long_windows_are_cut_and_said() -> None:
    """4,096 tokens become 48, which a run crosses three times; 20 stay."""
    long = SlidingAttention(kv_heads=2, head_dim=8, window=4096)

    small = cut(model(long, WINDOW))

    assert [state.window for state in small.spec.states()] == [48, 20]
    assert small.said == ("2 of 2 layers", "a window of 48 tokens for 4,096")


def test_windows_beside_recurrent_states() -> None:
    """Recurrent layers are compared in a quadratic form, which a long window would make long."""
    assert cut(model(GATED, WINDOW.replaced(window=256))).said[-1] == (
        "a window of 24 tokens for 256"
    )


def test_a_long_encoder_is_cut_and_said() -> None:
    """1,500 encoder tokens become 64."""
    small = cut(model((GQA, CROSS), encoder_tokens=1500))

    assert small.spec.encoder_tokens == 64
    assert small.said[-1] == "an encoder of 64 tokens"


def test_shared_layers_keep_their_source() -> None:
    """A layer that reads layer 2 of five takes that one along, under its new number."""
    kinds = {"full": (GQA,), "window": (WINDOW,), "shared": (SharedCache(reads=2),)}
    layers = ("full", "window", "full", "window", "shared")
    spec = ModelSpec(name="small", heads=4, kinds=kinds, layers=layers)

    small = cut(spec).spec

    assert small.layers == ("full", "window", "full", "shared")
    assert small.shared_sources() == {3: 2}


def test_layers_that_keep_nothing_are_left_out() -> None:
    """A feed-forward layer has no cache to prove."""
    small = cut(model(GQA, ()).replaced(layers=("kind1", "kind0", "kind1"))).spec

    assert small.layers == ("kind0",)
