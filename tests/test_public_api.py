"""Use as a library: few names, typed and documented, loaded when first used."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest

import kvplan
from kvplan import load_model, size
from kvplan.plan import size as size_module


def test_a_size_in_one_call():
    """32 sequences x 32 layers x 131,072 tokens x 2 x 8 x 128 x 2 B."""
    assert size("llama3-8b", ctx=131072, batch=32).logical.bytes == 549755813888


def test_a_model_is_loaded_once_and_sized_often():
    """What `load_model` returns, `size` takes."""
    model = load_model("meta-llama/Meta-Llama-3-8B")

    assert model.spec.name == "llama3-8b"
    assert [size(model, ctx=ctx).logical.bytes for ctx in (1, 2)] == [131072, 262144]


@pytest.mark.parametrize("module", [kvplan, size_module])
def test_the_examples_in_docstrings_are_true(module):
    """Run as they stand."""
    found = doctest.testmod(module)

    assert found.attempted >= 1
    assert found.failed == 0


def test_every_public_name_is_there_and_documented():
    """`__all__` is sorted and complete."""
    assert kvplan.__all__ == sorted(kvplan.__all__)
    for name in kvplan.__all__:
        assert getattr(kvplan, name).__doc__
        assert name in dir(kvplan)


def test_another_name_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'kvplan' has no attribute 'sise'"):
        kvplan.sise  # noqa: B018


def test_the_package_says_that_it_is_typed():
    """PEP 561."""
    assert (Path(kvplan.__file__).parent / "py.typed").exists()


def test_errors_share_one_base():
    """A caller catches KvplanError and nothing else."""
    with pytest.raises(kvplan.KvplanError):
        size("no-such-model")
    with pytest.raises(kvplan.KvplanError):
        size("llama3-8b", ctx=0)


def test_names_paths_and_sizes_as_on_the_command_line(tmp_path):
    """`fit("name", ..., "40GiB")`, `size(Path(...))`, `ctx="8k"`."""
    path = tmp_path / "my.yaml"
    path.write_text("name: my\ndtype: bfloat16\nlayers: 2\nattention: {kv_heads: 1, head_dim: 8}\n")

    assert kvplan.fit("llama3-8b", kvplan.Request(batch=32), "40GiB").max_batch_at_ctx == 40
    assert size(path, ctx="2k").logical.bytes == 2 * 2048 * 2 * 8 * 2
    assert size("llama3-8b", ctx="8k").logical.ctx == 8192


def test_contradictions_and_wrong_types_are_errors_of_kvplan():
    """Whatever is wrong with what was asked is a KvplanError."""
    for wrong in (
        lambda: size("llama3-8b", ctx=8192, request=kvplan.Request(ctx=4)),
        lambda: kvplan.fit("llama3-8b", kvplan.Request(), float("nan")),
        lambda: kvplan.fit("llama3-8b", kvplan.Request(), "much"),
        lambda: load_model(7),
        lambda: kvplan.to_dict(object()),
    ):
        with pytest.raises(kvplan.KvplanError):
            wrong()


def test_results_are_short_to_read_and_plain_as_data():
    """A repr on one line; `to_dict` is what `--json` prints."""
    model = load_model("llama3-8b")
    request = kvplan.Request(batch=2)
    for result in (size(model), kvplan.fit(model, request, 2**30), model):
        assert len(repr(result)) < 100
        assert json.loads(json.dumps(result.to_dict()))
    assert repr(model.spec) == "ModelSpec('llama3-8b', 32 layers)"


def test_models_and_engines_are_listed():
    """Both filter and name as the command line does."""
    assert "kimi-k3" in [spec.name for spec in kvplan.models(search="kimi")]
    assert kvplan.engines()["vllm"][0] == "0.33.0"
    assert set(kvplan.engines()) >= {"logical", "transformers", "vllm"}
