"""What must hold between answers, whatever each of them is: growth, sums, inverses, round trips."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given
from hypothesis import strategies as st

from kvplan.engines.request import Request
from kvplan.errors import KvplanError
from kvplan.plan.size import size
from kvplan.spec.writer import write_spec
from tests.fuzz.test_readers import fuzzed

MODELS = st.sampled_from(
    ["llama3-8b", "deepseek-v3", "gemma-3-27b", "qwen3.6-27b", "gpt-oss-20b", "falcon-7b",
     "deepseek-v3.2", "llama-4-scout", "jamba-1.5-mini", "gemma-3n-e4b"]
)  # fmt: skip
ENGINES = st.sampled_from(["logical", "vllm", "transformers"])
LENGTHS = st.integers(1, 20_000)


def bytes_of(model: str, engine: str = "logical", **asked: int) -> int:
    """Bytes that a request takes; a refused one is no case."""
    try:
        found = size(model, request=Request(**asked), engine=engine)
    except KvplanError:
        assume(False)
        raise
    if found.allocated is None:
        return found.logical.bytes
    assume(found.allocated.refusal is None)
    return found.allocated.bytes


@fuzzed
@given(MODELS, ENGINES, LENGTHS, st.integers(1, 500), st.integers(1, 9))
def test_more_takes_no_less(model: str, engine: str, ctx: int, more: int, batch: int) -> None:
    """Neither more tokens nor more sequences take fewer bytes."""
    one = bytes_of(model, engine, ctx=ctx, batch=batch)

    assert bytes_of(model, engine, ctx=ctx + more, batch=batch) >= one
    assert bytes_of(model, engine, ctx=ctx, batch=batch + 1) >= one


@fuzzed
@given(MODELS, LENGTHS, st.integers(1, 64))
def test_sequences_are_linear(model: str, ctx: int, batch: int) -> None:
    """What a model must keep of n sequences is n times what it keeps of one."""
    assert bytes_of(model, ctx=ctx, batch=batch) == batch * bytes_of(model, ctx=ctx)


@fuzzed
@given(MODELS, LENGTHS)
def test_one_more_token(model: str, ctx: int) -> None:
    """`bytes_per_token` is the difference that the next token makes."""
    found = size(model, ctx=ctx).logical

    assert size(model, ctx=ctx + 1).logical.bytes - found.bytes == found.bytes_per_token


@fuzzed
@given(MODELS, LENGTHS, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_ranks_add_up(model: str, ctx: int, tp: int, pp: int) -> None:
    """The ranks of the logical cache hold it once and whole."""
    found = size(model, request=Request(ctx=ctx, tp=tp, pp=pp))

    assert sum(rank.bytes for rank in found.layout().ranks) == found.logical.bytes


@fuzzed
@given(MODELS, LENGTHS)
def test_a_written_spec_is_the_same_model(model: str, ctx: int) -> None:
    """size(read(write(x))) = size(x)."""
    found = size(model, ctx=ctx)
    with TemporaryDirectory() as folder:
        path = Path(folder, "again.yaml")
        path.write_text(write_spec(found.model.spec), encoding="utf-8")

        assert size(str(path), ctx=ctx).logical.bytes == found.logical.bytes
