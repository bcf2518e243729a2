"""A staircase is the whole plan: at every break, at random lengths, and in its inverses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from kvplan.engines import find_engine
from kvplan.engines.base import Prepared
from kvplan.engines.kit.staircase import Staircase
from kvplan.engines.request import Request
from kvplan.errors import KvplanError
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.model import ModelSpec
from kvplan.steps import Step, Steps, largest_of, pieces, total

VLLM = find_engine("vllm")[0].versions
# Every model in the newest release, and in each other release one of so many.
ONE_OF = 8
# vLLM keeps nothing of some models, and some have lengths below which batched tokens are fewer.
LONGEST = 200_000


@cache
def catalogue() -> tuple[ModelSpec, ...]:
    return tuple(entry.spec() for entry in Catalogue([]).entries())


def lengths(stairs: Staircase, seed: str) -> Iterator[int]:
    """Around the ends, the caps, floors and first breaks of every step, and ten anywhere."""
    last = min(stairs.last or LONGEST, LONGEST)
    edges = [stairs.first, last]
    for term in stairs.steps.terms:
        edges += [term.floor, term.cap or 1]
        edges += [k * term.size - term.lead for k in (1, 2, 7)]
        edges += [(last + term.lead) // term.size * term.size - term.lead]
    near = {edge + more for edge in edges for more in (-1, 0, 1)}
    drawn = random.Random(seed)
    near |= {drawn.randint(min(stairs.first, last), last) for _ in range(10)}
    yield from sorted(length for length in near if stairs.first <= length <= last)


def agrees(prepared: Prepared, seed: str) -> bool:
    """Whether there is a staircase; it then says what the plan says."""
    stairs = prepared.staircase
    if stairs is None:
        return False
    for length in lengths(stairs, seed):
        batch = 1 + length % 3
        plan = prepared.plan(length, batch)
        assert plan.refusal is None, (seed, length, plan.refusal)
        assert stairs.at(length, batch) == plan.peak_bytes, (seed, length)
    return True


def prepared_of(spec: ModelSpec, engine: str) -> Prepared | None:
    found, version = find_engine(engine)
    try:
        return found.prepare(spec, Request(dtype="auto" if spec.dtype else "bf16"), version)
    except KvplanError:
        return None


def test_the_logical_cache_of_every_model() -> None:
    """All of the catalogue, none left out."""
    for spec in catalogue():
        prepared = prepared_of(spec, "logical")
        assert prepared is not None
        assert agrees(prepared, spec.name)


@pytest.mark.parametrize("version", VLLM)
def test_every_listed_release_of_vllm(version: str) -> None:
    """A model has a staircase wherever the release starts with it."""
    place = VLLM.index(version)
    every = 1 if not place else ONE_OF
    for spec in catalogue()[place % every :: every]:
        prepared = prepared_of(spec, f"vllm@{version}")
        if prepared is not None and not agrees(prepared, f"{spec.name} {version}"):
            assert prepared.plan(None, 1).refusal is not None, spec.name


@pytest.mark.evidence
def test_every_model_in_every_release() -> None:
    """The same, each model in each release."""
    for version in VLLM:
        for spec in catalogue():
            prepared = prepared_of(spec, f"vllm@{version}")
            if prepared is not None and not agrees(prepared, f"{spec.name} {version}"):
                assert prepared.plan(None, 1).refusal is not None, (spec.name, version)


@pytest.mark.evidence
@pytest.mark.parametrize("engine", ["logical", "vllm"])
def test_every_length_of_twenty_models(engine: str) -> None:
    """To 20,000 tokens, one by one."""
    for spec in catalogue()[:: len(catalogue()) // 20][:20]:
        prepared = prepared_of(spec, engine)
        stairs = prepared.staircase if prepared is not None else None
        if prepared is None or stairs is None:
            continue
        for length in range(stairs.first, min(stairs.last or LONGEST, 20_000) + 1):
            assert stairs.at(length, 2) == prepared.plan(length, 2).peak_bytes, (spec.name, length)


def test_the_most_of_pieces_of_unequal_sizes() -> None:
    """Smaller pieces are never fewer; a window among them is another form."""
    whole = {Steps(0, (pieces(16),)), Steps(0, (pieces(48),))}

    assert largest_of(whole) == Steps(0, (pieces(16),))
    assert largest_of({*whole, Steps(1, (pieces(16, cap=9),))}) is None
    assert largest_of([Steps(3)]) == Steps(3)


def test_bytes_by_hand() -> None:
    """Blocks of 16 tokens of a window of 100 and of every token, one null block, 10 bytes each."""
    steps = total([(1, Steps(1, (pieces(16, cap=100),))), (2, Steps(0, (pieces(16),)))])
    stairs = Staircase(steps=steps, once=1, unit=10)

    # 17 tokens: 2 + 1 blocks of the window, 2 x 2 of the others
    assert stairs.at(17, 3) == (3 * (3 + 4) + 1) * 10
    # 200 tokens: 7 + 1 and 2 x 13
    assert stairs.at(200) == (8 + 26 + 1) * 10
    assert stairs.per_token(16) == 30
    assert stairs.per_token(208) == 20


def test_breaks_are_where_a_step_grows() -> None:
    """Every 16th token from the first on, and no further than the cap."""
    assert list(pieces(16, cap=40).breaks(1, 100)) == [1, 17, 33]
    assert list(Step(1, 4).breaks(1, 12)) == [4, 8, 12]
    term = Step(3, 7, 5, 10, 60)
    grows = [tokens for tokens in range(2, 90) if term.at(tokens) > term.at(tokens - 1)]
    assert list(term.breaks(2, 89)) == grows


def test_inverses_are_exact() -> None:
    """One more sequence, or one more token, does not fit; no bound where nothing grows."""
    stairs = Staircase(steps=Steps(2, (pieces(16),)), once=1, unit=100, last=10_000)
    for room in (99, 400, 401, 5_000, 123_456):
        most, longest = stairs.most(room, 40), stairs.longest(room, 2)
        assert most is not None
        assert longest is not None
        assert stairs.at(40, most + 1) > room
        assert not most or stairs.at(40, most) <= room
        assert longest == 10_000 or stairs.at(longest + 1, 2) > room
        assert not longest or stairs.at(longest, 2) <= room
    fixed = Staircase(steps=Steps(5), unit=10)
    assert fixed.longest(50) is None
    assert fixed.longest(49) == 0
    assert Staircase(steps=Steps(), unit=0).most(0, 1) is None


def test_a_table_is_the_cells_one_by_one() -> None:
    """Rows of lengths, a figure for each batch."""
    stairs = Staircase(steps=Steps(1, (pieces(16, cap=64), Step(3, 4))), once=2, unit=7, divisor=2)
    for row in stairs.rows(range(1, 90), (1, 5, 9)):
        assert row.bytes == [stairs.at(row.tokens, batch) for batch in (1, 5, 9)]
        assert row.bytes_per_token == stairs.per_token(row.tokens)
