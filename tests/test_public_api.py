"""Use as a library: few names, typed and documented, loaded when first used."""

from __future__ import annotations

import doctest
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
