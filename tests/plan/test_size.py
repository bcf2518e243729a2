"""`size`: what it takes, what it answers, and what it warns of."""

from __future__ import annotations

import pytest

from kvplan.engines.request import Request
from kvplan.errors import KvplanError, UsageError
from kvplan.load import LoadedModel
from kvplan.plan.size import size
from kvplan.spec import catalogue as catalogue_module
from kvplan.spec.folder import SpecFolder
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import CrossAttention, FullAttention, LatentAttention


def tiny(*states, **facts) -> ModelSpec:
    """Two layers of one kind, 100 tokens at most."""
    kinds = {"attention": states or (FullAttention(kv_heads=2, head_dim=64),)}
    facts = {"name": "tiny", "dtype": "bfloat16", "max_context": 100, **facts}
    return ModelSpec(kinds=kinds, layers=("attention",) * 2, **facts)


def warnings(*args, **options) -> dict[str, str]:
    return dict(size(*args, **options).warnings)


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    """An empty catalogue that tests write into: name, maximum context, kv_heads."""

    def add(name, max_context, kv_heads=2, family="tinies"):
        (tmp_path / f"{name}.yaml").write_text(
            f"name: {name}\nfamily: {family}\ndtype: bfloat16\nmax_context: {max_context}\n"
            f"layers: 2\nattention: {{kv_heads: {kv_heads}, head_dim: 64}}\n"
        )

    monkeypatch.setattr(catalogue_module, "builtin_folder", lambda: SpecFolder(str(tmp_path)))
    return add


def test_a_size_needs_only_a_model():
    """The model's maximum, one sequence, its own format: 2 layers x 100 x 2 x 2 x 64 x 2."""
    result = size(tiny())

    assert result.logical.bytes == 102400
    assert (result.request.ctx, result.logical.batch, result.dtype_name) == (100, 1, "bfloat16")
    assert result.allocated is None
    assert result.warnings == ()


def test_a_model_is_a_name_a_loaded_model_or_a_spec(catalogue):
    """The same answer for all three."""
    catalogue("tiny", 100)
    loaded = LoadedModel(tiny(), "somewhere")

    assert [size(model).logical.bytes for model in ("TINY", loaded, tiny())] == [102400] * 3


def test_a_whole_request_goes_before_single_options():
    """2 layers x 10 tokens x 3 sequences x (2 x 64 x 2 B of K + 2 x 64 x 1 B of V)."""
    result = size(tiny(), request=Request(ctx=10, batch=3, dtype_v="fp8"))

    assert result.logical.bytes == 23040
    assert result.dtype_name == "bfloat16/fp8_e4m3"


@pytest.mark.parametrize("options", [{"ctx": 0}, {"batch": -1}, {"ctx": 1.5}, {"dtype": "fp7"}])
def test_bad_options_are_errors_of_kvplan(options):
    """Never a wrong figure."""
    with pytest.raises(UsageError):
        size(tiny(), **options)


def test_an_unknown_engine_is_an_error():
    """The known ones are listed."""
    with pytest.raises(KvplanError, match="'warp' is not an engine kvplan knows") as caught:
        size(tiny(), engine="warp")

    assert caught.value.hint.startswith("one of logical")


def test_a_context_above_the_maximum_is_a_warning_not_an_error(catalogue):
    """The figure is still right."""
    assert warnings(tiny(), ctx=101) == {
        "ctx-above-maximum": "101 tokens is above the 100 that tiny supports"
    }
    assert warnings(tiny(), ctx=100) == {}


def test_a_sibling_that_supports_the_context_is_named(catalogue):
    """Same family, same cache, the smallest maximum that is enough."""
    catalogue("tiny", 100)
    catalogue("tiny-long", 1_000_000)
    catalogue("tiny-middle", 4000)
    catalogue("tiny-short", 200)
    catalogue("tiny-wide", 2000, kv_heads=4)
    catalogue("other", 2000, family="others")

    assert warnings(tiny(family="tinies"), ctx=1000) == {
        "ctx-above-maximum": "1,000 tokens is above the 100 that tiny supports;"
        " tiny-middle (4,000) has the same cache"
    }


def test_a_model_without_a_family_has_no_sibling(catalogue):
    """Nothing says that models of the same shape are the same model."""
    catalogue("tiny-long", 4000)

    assert "has the same cache" not in warnings(tiny(), ctx=1000)["ctx-above-maximum"]


@pytest.mark.parametrize("spelling", ["float16", "fp16", "F16"])
def test_a_format_that_the_maker_rules_out_is_a_warning(spelling):
    """Whichever spelling the spec uses, with the maker's reason."""
    spec = tiny(unsupported_dtypes={spelling: "activations overflow"})

    assert warnings(spec, dtype="half") == {
        "unsupported-dtype": "tiny in float16: activations overflow"
    }
    assert warnings(spec, dtype="bf16") == {}


def test_a_ruled_out_format_counts_for_v_alone_too():
    """Once, however often it is used."""
    spec = tiny(unsupported_dtypes={"fp16": "overflows"})

    assert list(warnings(spec, request=Request(dtype_v="fp16"))) == ["unsupported-dtype"]


def test_blocks_that_do_not_divide_a_head_are_a_warning():
    """80 = 2.5 x 32; 64 = 2 x 32; 80 = 5 x 16."""
    spec = tiny(FullAttention(kv_heads=2, head_dim=80))

    assert warnings(spec, dtype="q8_0") == {
        "uneven-blocks": "q8_0 stores blocks of 32 elements, which do not divide a head of 80;"
        " engines refuse this format for this model"
    }
    assert warnings(tiny(), dtype="q8_0") == {}
    assert warnings(spec, dtype="nvfp4") == {}


def test_blocks_are_held_against_the_vector_they_store():
    """K of 192 in q8_0 divides, V of 80 in q4_0 does not."""
    spec = tiny(FullAttention(kv_heads=2, head_dim=192, v_head_dim=80))
    message = warnings(spec, request=Request(dtype_k="q8_0", dtype_v="q4_0"))["uneven-blocks"]

    assert message.startswith("q4_0 stores blocks of 32 elements, which do not divide a head of 80")
    assert warnings(spec, request=Request(dtype_k="q8_0")) == {}


def test_draft_layers_that_are_not_there_are_a_warning():
    """The figure is the same as without the option, and says so."""
    spec = tiny()
    drafted = spec.replaced(draft_layers=("attention",))

    assert warnings(spec, request=Request(with_draft=True)) == {
        "no-draft-layers": "the spec of tiny has no layers of multi-token prediction to count"
    }
    assert warnings(drafted, request=Request(with_draft=True)) == {}
    assert size(drafted, request=Request(with_draft=True)).logical.bytes == 153600  # 3 layers


def test_a_latent_is_no_head():
    """One vector of 576 per token: nothing has to divide it evenly."""
    spec = tiny(LatentAttention(kv_lora_rank=500, qk_rope_head_dim=64))

    assert warnings(spec, dtype="q8_0") == {}


def test_an_assumed_length_of_the_encoder_is_a_warning():
    """Neither the model nor the request fixes it."""
    cross = CrossAttention(kv_heads=2, head_dim=64)

    assert warnings(tiny(cross)) == {
        "encoder-tokens-assumed": "tiny does not fix its encoder's length: counted as 100 tokens,"
        " the context; --encoder-tokens says otherwise"
    }
    assert warnings(tiny(cross, encoder_tokens=1500)) == {}
    assert warnings(tiny(cross), request=Request(encoder_tokens=50)) == {}


def test_warnings_of_the_import_come_first():
    """What had to be assumed to read a model stays with every answer about it."""
    from kvplan.notice import Notice

    loaded = LoadedModel(tiny(), "config.json", (Notice("assumed", "something"),))

    assert [w.id for w in size(loaded, ctx=101).warnings] == ["assumed", "ctx-above-maximum"]
